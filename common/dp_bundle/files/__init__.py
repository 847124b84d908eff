"""Files and folders that are whole or absent: new ones, a bundle's members, who may write them, and renaming."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.files.folder import FolderMembers, end_in_name, packed_path
    from dp_bundle.files.locking import locked, locked_folder
    from dp_bundle.files.new_files import (
        make_private_folder,
        require_folder,
        require_names,
        settle,
        whole_file,
        write_whole,
    )
    from dp_bundle.files.new_folders import clear_unfinished, hidden_folder, new_file, new_folder
    from dp_bundle.files.ownership import read_own, read_regular, require_own, require_private
    from dp_bundle.files.range_reader import RangeReader
    from dp_bundle.files.renaming import UNSUPPORTED, exchange, rename_new, sync_folder
    from dp_bundle.files.tar import MAX_MEMBER_SIZE, TarMembers, first_member, signed_members, write_archive
    from dp_bundle.files.windows import (
        MOST_IN_MEMORY,
        CheckedReader,
        Digests,
        Member,
        MemberReader,
        Members,
        changed,
        digest_member,
        read_at,
        read_unchanged,
    )
else:
    __getattr__ = import_on_demand(__name__)
