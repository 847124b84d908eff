"""Names of the portals that a bundle can be prepared for."""

PORTALS = ("static", "huggingface", "ckan", "dataverse", "zenodo")
