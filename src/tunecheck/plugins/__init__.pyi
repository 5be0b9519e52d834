"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from .._describe import (
    Document as Document,
    Written as Written,
    one_of as one_of,
    read_as as read_as,
    read_fitting as read_fitting,
)
from .._disk import (
    cache_folder as cache_folder,
    is_held as is_held,
    lines as lines,
    lock as lock,
    open_regular as open_regular,
    read_regular as read_regular,
    replacing as replacing,
    sha256_of as sha256_of,
    write_file as write_file,
)
from .._errors import MissingExtraError as MissingExtraError, raise_as as raise_as
from .._faults import (
    MAX_FAULTS as MAX_FAULTS,
    Verdict as Verdict,
    cause_named as cause_named,
    causes as causes,
    error_cause as error_cause,
    fault_titles as fault_titles,
    order_causes as order_causes,
    read_faults as read_faults,
    refuses as refuses,
    sentence as sentence,
    title as title,
    to_json as to_json,
    verdict as verdict,
)
from .._files import (
    FORMAT_VERSION as FORMAT_VERSION,
    EvaluatorEntry as EvaluatorEntry,
    Failure as Failure,
    JudgeCalibration as JudgeCalibration,
    LabelledVerdict as LabelledVerdict,
    MetricEntry as MetricEntry,
    RunFile as RunFile,
    check_first_record as check_first_record,
    check_version as check_version,
    read_object as read_object,
)
from .._fingerprints import fingerprint as fingerprint
from .._json import (
    JSON as JSON,
    MISSING as MISSING,
    Missing as Missing,
    canonical as canonical,
    content_hash as content_hash,
    convert_value as convert_value,
    dumps as dumps,
    dumps_line as dumps_line,
    find_value as find_value,
    loads as loads,
    parse_path as parse_path,
    plain as plain,
    real_number as real_number,
    value_of as value_of,
    whole_number as whole_number,
)
from .._lazy import attach_stub as attach_stub
from .._loops import LoopThread as LoopThread, UserLoop as UserLoop
from .._messages import (
    ALLOW_SIMULATED as ALLOW_SIMULATED,
    clean as clean,
    command_line as command_line,
    did_you_mean as did_you_mean,
    how_it_ended as how_it_ended,
    plural as plural,
    printable as printable,
)
from .._progress import (
    NotebookProgress as NotebookProgress,
    Progress as Progress,
    ProgressBar as ProgressBar,
    Throughput as Throughput,
)
from .._records import RecordFile as RecordFile, WholeRecords as WholeRecords, synced_file as synced_file
from .._targets import CallsMade as CallsMade, TargetOutput as TargetOutput
from .._trust import Trust as Trust, is_signed as is_signed, signature as signature
from .._version import is_shipped as is_shipped
from .._yaml import (
    load_yaml as load_yaml,
    parse_document as parse_document,
    parse_yaml as parse_yaml,
    read_yaml as read_yaml,
)
from ._interface import (
    Code as Code,
    Extension as Extension,
    MakeUploader as MakeUploader,
    MirrorLike as MirrorLike,
    Plugin as Plugin,
    UploaderLike as UploaderLike,
)
from ._names import (
    WORKSPACE_MODULES as WORKSPACE_MODULES,
    AbsentPlugin as AbsentPlugin,
    Candidate as Candidate,
    absence_hint as absence_hint,
    absent_plugins as absent_plugins,
    call as call,
    check as check,
    codes as codes,
    command_groups as command_groups,
    discover as discover,
    find as find,
    installed_plugins as installed_plugins,
    kinds as kinds,
    load as load,
    load_all as load_all,
    load_by_name as load_by_name,
    load_file as load_file,
    load_offer as load_offer,
)
