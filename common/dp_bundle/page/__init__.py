"""Pages that open from a disk without network: templates, styles, tables one can sort, and figures one can touch."""
