"""Rules of DCAT-AP 3.0.0 for catalogs and datasets as SHACL, in our own words: how often, and of which class or type.

The project's own shapes (github.com/SEMICeu/DCAT-AP, releases/3.0.0/shacl/dcat-ap-SHACL.ttl) state one rule for each
property, which is described at semiceu.github.io/DCAT-AP/releases/3.0.0/#CLASS.PROPERTY. Here are those of the classes
and properties that a release has, and all that are mandatory for these classes, compared with that file one by one.
Like it they ask that addresses have the class rdfs:Resource, which a validator that infers nothing does not assume.
"""

from rdflib import Graph

# class, property, least, most, "class" or "datatype" or "", and which
RULES = """
dcat:Catalog dct:title 1 - -
dcat:Catalog dct:description 1 - -
dcat:Catalog dct:publisher 1 1 class foaf:Agent
dcat:Catalog dcat:dataset 0 - class dcat:Dataset
dcat:Dataset dct:title 1 - -
dcat:Dataset dct:description 1 - -
dcat:Dataset dct:creator 0 - class foaf:Agent
dcat:Dataset dct:publisher 0 1 class foaf:Agent
dcat:Dataset dcat:contactPoint 0 - class vcard:Kind
dcat:Dataset dct:accessRights 0 1 class dct:RightsStatement
dcat:Dataset dct:issued 0 1 -
dcat:Dataset dct:provenance 0 - class dct:ProvenanceStatement
dcat:Dataset dcat:theme 0 - class skos:Concept
dcat:Dataset dct:language 0 - class dct:LinguisticSystem
dcat:Dataset dct:temporal 0 - class dct:PeriodOfTime
dcat:Dataset dct:spatial 0 - class dct:Location
dcat:Dataset dcat:landingPage 0 - class foaf:Document
dcat:Dataset foaf:page 0 - class foaf:Document
dcat:Dataset dct:relation 0 - class rdfs:Resource
dcat:Dataset dct:isReferencedBy 0 - class rdfs:Resource
dcat:Dataset dcat:distribution 0 - class dcat:Distribution
dcat:Distribution dcat:accessURL 1 - class rdfs:Resource
dcat:Distribution dcat:downloadURL 0 - class rdfs:Resource
dcat:Distribution dcat:byteSize 0 1 datatype xsd:nonNegativeInteger
dcat:Distribution dcat:mediaType 0 1 class dct:MediaType
dcat:Distribution dct:format 0 1 class dct:MediaTypeOrExtent
dcat:Distribution dct:license 0 1 class dct:LicenseDocument
dcat:Distribution dct:rights 0 1 class dct:RightsStatement
dcat:Distribution spdx:checksum 0 1 class spdx:Checksum
spdx:Checksum spdx:algorithm 1 1 class spdx:ChecksumAlgorithm
spdx:Checksum spdx:checksumValue 1 1 datatype xsd:hexBinary
foaf:Agent foaf:name 1 - -
skos:Concept skos:prefLabel 1 - -
dct:PeriodOfTime dcat:startDate 0 1 -
dct:PeriodOfTime dcat:endDate 0 1 -
"""
PREFIXES = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sh": "http://www.w3.org/ns/shacl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def shapes() -> Graph:
    """Return the rules as SHACL shapes."""
    lines = [f"@prefix {name}: <{address}> ." for name, address in PREFIXES.items()]
    for rule in RULES.split("\n"):
        if not rule:
            continue
        target, path, least, most, kind, *which = rule.split()
        said = [f"sh:path {path}", f"sh:minCount {least}"]
        said += [f"sh:maxCount {most}"] if most != "-" else []
        said += ["sh:nodeKind sh:IRI"] if which == ["rdfs:Resource"] else []
        said += [f"sh:{kind} {which[0]}"] if which else []
        lines.append(f"[] a sh:NodeShape ; sh:targetClass {target} ; sh:property [ {' ; '.join(said)} ] .")
    return Graph().parse(data="\n".join(lines), format="turtle")
