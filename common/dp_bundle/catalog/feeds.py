"""A portal's files for other machines: a DCAT catalog, an Atom feed, a sitemap and checksums.

References
----------
DCAT-AP 3.0.0. RFC 4287 (Atom). sitemaps.org, protocol 0.9. GNU coreutils, sha256sum.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

from dp_bundle.base.quoting import escape
from dp_bundle.portals.dcat import DCAT_CONTEXT

_NEWEST = 100  # entries of the feed
_EPOCH = "1970-01-01T00:00:00Z"  # of a feed without entries, which must have a date
Facts = dict[str, Any]


def catalog_document(title: str, address: str, offered: Sequence[Facts]) -> str:
    """Return the catalog of all offered releases as DCAT in JSON-LD."""
    catalog = {
        "@context": DCAT_CONTEXT,
        "@id": address or "#catalog",
        "@type": "dcat:Catalog",
        "dct:title": title,
        "dct:description": "Data sets that carry random noise for differential privacy, each signed by its publisher.",
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": title},
        "dcat:dataset": [facts["dcat"] for facts in offered],
    }
    return json.dumps(catalog, indent=1, ensure_ascii=False) + "\n"


def atom_feed(title: str, address: str, offered: Sequence[Facts]) -> str:
    """Return the newest releases as an Atom feed."""
    newest = sorted(offered, key=lambda facts: (facts["created"], facts["manifest_sha256"]), reverse=True)[:_NEWEST]
    updated = newest[0]["created"] if newest else _EPOCH
    name = address or f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, title)}"
    links = [f"<link href={quoteattr(address or 'index.html')}/>"]
    if address:
        links.append(f'<link rel="self" href={quoteattr(f"{address}feed.xml")}/>')
    head = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{_text(title)}</title><id>{_text(name)}</id><updated>{updated}</updated>{''.join(links)}",
    ]
    return "\n".join([*head, *(_entry(address, facts) for facts in newest), "</feed>", ""])


def _entry(address: str, facts: Facts) -> str:
    about, label = facts["about"], facts["label"]
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"sha256:{facts['manifest_sha256']}")
    by = about["creators"] or [about["publisher"] or facts["signer"]]
    authors = "".join(f"<author><name>{_text(each)}</name></author>" for each in by)
    summary = " ".join([label["who"], *label["strength"]])
    link = f"{address}{facts['folder']}/{facts['page']}"
    return (
        f"<entry><title>{_text(about['title'])}, release {facts['number']}</title><id>urn:uuid:{name}</id>"
        f"<updated>{facts['created']}</updated>{authors}"
        f"<link href={quoteattr(link)}/>"
        f"<summary>{_text(summary)}</summary></entry>"
    )


def sitemap(address: str, offered: Sequence[Facts]) -> str:
    """Return the sitemap of a site whose address is known."""
    pages = [f"{facts['folder']}/{facts['page']}" for facts in offered]
    dates = [facts["created"][:10] for facts in offered]
    urls = [f"<url><loc>{_text(address)}</loc></url>"]
    urls += [
        f"<url><loc>{_text(address + page)}</loc><lastmod>{date}</lastmod></url>"
        for page, date in zip(pages, dates, strict=True)
    ]
    head = '<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return "\n".join([head, *urls, "</urlset>", ""])


def checksums(offered: Sequence[Facts]) -> str:
    """Return the digest of every download, as sha256sum -c reads it."""
    lines = []
    for facts in offered:
        name = f"{facts['folder']}/{facts['tar']}"
        lines.append(f"{facts['sha256']}  {name}\n")
        lines += [f"{sha256}  {name}.minisig\n" for sha256, is_good in facts["beside"].items() if is_good]
    return "".join(lines)


def _text(text: str) -> str:
    return escape_xml(escape(text))
