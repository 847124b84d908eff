"""Files that are whole or absent: new ones, tar archives, who may write them, and names changed in one step."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.files.locking import locked, locked_folder
    from dp_bundle.files.new_files import (
        make_private_folder,
        require_folder,
        require_names,
        settle,
        whole_file,
        write_whole,
    )
    from dp_bundle.files.ownership import read_own, read_regular, require_own
    from dp_bundle.files.renaming import UNSUPPORTED, exchange, rename_new, sync_folder
    from dp_bundle.files.tar import first_member, scan_archive, write_archive
    from dp_bundle.files.windows import CheckedReader, Digests, Member, MemberReader, digest_member
else:
    __getattr__ = import_on_demand(__name__)
