"""A bundle as a whole: written in one go, verified in one go, and what a reader is told of it."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.bundle.chain import Chain, Link, check_chain, describe_chain
    from dp_bundle.bundle.companions import Companion, belongs, find_companions, read_beside
    from dp_bundle.bundle.cosigned import cosign, cosigners, signatures_path
    from dp_bundle.bundle.export import export_csv
    from dp_bundle.bundle.folder import find_bundles
    from dp_bundle.bundle.inspection import bundle_facts, describe_bundle, describe_copies
    from dp_bundle.bundle.minisig import minisig_path, minisign_bundle, minisign_release, write_minisig
    from dp_bundle.bundle.opened import Bundle, tar_beside
    from dp_bundle.bundle.packing import pack_bundle, unpack_bundle, write_tar
    from dp_bundle.bundle.part_tasks import PartTask, open_part
    from dp_bundle.bundle.portals import FORMS, PORTALS
    from dp_bundle.bundle.published import published_files
    from dp_bundle.bundle.reading import open_bundle, open_bundles
    from dp_bundle.bundle.staging import describe_as, stage_bundle
    from dp_bundle.bundle.writing import MANIFEST_NAME, write_bundle
else:
    __getattr__ = import_on_demand(__name__)
