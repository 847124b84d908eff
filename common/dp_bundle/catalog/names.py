"""Names of the vocabularies and of the portals that a bundle can be prepared for."""

FORMS = ("frictionless", "croissant", "dcat", "datacite", "schema.org")
PORTALS = ("static", "huggingface", "ckan", "dataverse", "zenodo")
