"""The guard of aggregation pipelines: stages and operators that only read, and the paths that a pipeline reads.

Only what is listed here is sent. Nothing listed writes, runs code, describes the server, or names another database; an
operator that a later version of MongoDB adds is refused until it is listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import SourceError, did_you_mean, listing

STAGES: Final = frozenset(
    {
        *("$match", "$project", "$addFields", "$set", "$unset", "$group", "$sort", "$limit", "$skip", "$unwind"),
        *("$count", "$facet", "$lookup", "$unionWith", "$bucket", "$bucketAuto", "$sortByCount", "$replaceRoot"),
        *("$replaceWith", "$redact", "$setWindowFields"),
    }
)
"""The stages that a pipeline may have."""

CONDITIONS: Final = frozenset(
    {
        *("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$and", "$or", "$nor", "$not", "$exists"),
        *("$type", "$expr", "$mod", "$regex", "$options", "$all", "$elemMatch", "$size", "$bitsAllClear"),
        *("$bitsAllSet", "$bitsAnyClear", "$bitsAnySet"),
    }
)
"""The operators of conditions."""

EXPRESSIONS: Final = frozenset(
    {
        *("$abs", "$add", "$ceil", "$divide", "$exp", "$floor", "$ln", "$log", "$log10", "$mod", "$multiply", "$pow"),
        *("$round", "$sqrt", "$subtract", "$trunc", "$sin", "$cos", "$tan", "$asin", "$acos", "$atan", "$atan2"),
        *("$degreesToRadians", "$radiansToDegrees", "$sinh", "$cosh", "$tanh"),
        *("$arrayElemAt", "$concatArrays", "$filter", "$first", "$firstN", "$in", "$indexOfArray"),
        *("$isArray", "$last", "$lastN", "$map", "$maxN", "$minN", "$objectToArray", "$reverseArray", "$size"),
        *("$slice", "$sortArray", "$zip", "$mergeObjects", "$let", "$literal"),
        *("$and", "$not", "$or", "$cmp", "$eq", "$gt", "$gte", "$lt", "$lte", "$ne", "$cond", "$ifNull", "$switch"),
        *("$dateAdd", "$dateDiff", "$dateFromParts", "$dateFromString", "$dateSubtract", "$dateToParts"),
        *("$dateToString", "$dateTrunc", "$dayOfMonth", "$dayOfWeek", "$dayOfYear", "$hour", "$isoDayOfWeek"),
        *("$isoWeek", "$isoWeekYear", "$millisecond", "$minute", "$month", "$second", "$week", "$year"),
        *("$allElementsTrue", "$anyElementTrue", "$setDifference", "$setEquals", "$setIntersection", "$setIsSubset"),
        *("$setUnion", "$concat", "$indexOfBytes", "$indexOfCP", "$ltrim", "$regexFind", "$regexFindAll"),
        *("$regexMatch", "$replaceOne", "$replaceAll", "$rtrim", "$split", "$strLenBytes", "$strLenCP"),
        *("$strcasecmp", "$substr", "$substrBytes", "$substrCP", "$toLower", "$toUpper", "$trim"),
        *("$convert", "$isNumber", "$toBool", "$toDate", "$toDecimal", "$toDouble", "$toInt", "$toLong"),
        *("$toObjectId", "$toString", "$type", "$binarySize", "$bsonSize", "$tsSecond", "$tsIncrement"),
        *("$sum", "$avg", "$min", "$max", "$count", "$push", "$addToSet", "$stdDevPop", "$stdDevSamp", "$top"),
        *("$topN", "$bottom", "$bottomN", "$median", "$percentile"),
        *("$rank", "$denseRank", "$documentNumber", "$shift", "$expMovingAvg", "$derivative", "$integral"),
        *("$covariancePop", "$covarianceSamp", "$linearFill", "$locf"),
    }
)
"""The operators of expressions, accumulators and windows."""

VARIABLES: Final = frozenset({"ROOT", "CURRENT", "REMOVE", "NOW", "DESCEND", "PRUNE", "KEEP"})
"""The variables that MongoDB defines itself and a pipeline may use."""

MOST_STAGES: Final = 50
MOST_NODES: Final = 5_000
DEEPEST: Final = 40
MOST_CHARACTERS: Final = 100_000
"""Limits of a pipeline: its stages with those of nested pipelines, its values, their depth, and its length as JSON."""

_OPERATORS: Final = CONDITIONS | EXPRESSIONS
_WHOLE_STAGES: Final = frozenset({"$match", "$sort", "$limit", "$skip", "$unwind", "$addFields", "$set", "$unset"}) | {
    "$redact",
    "$setWindowFields",
}
"""The stages after which a document may still have every field."""

_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("$out", "$merge"), "it writes to the database"),
    **dict.fromkeys(("$where", "$function", "$accumulator"), "it runs JavaScript on the server"),
    **dict.fromkeys(
        ("$currentOp", "$listSessions", "$listLocalSessions", "$collStats", "$indexStats", "$planCacheStats"),
        "it describes the server instead of the collection",
    ),
    **dict.fromkeys(("$sample", "$sampleRate", "$rand"), "its results depend on chance"),
    **dict.fromkeys(("$graphLookup", "$range", "$reduce", "$densify", "$fill"), "its results have no limit"),
    **dict.fromkeys(("$arrayToObject", "$setField", "$unsetField", "$getField"), "it turns values into field names"),
    **dict.fromkeys(("$text", "$search", "$searchMeta", "$vectorSearch", "$geoNear"), "it searches a special index"),
    "$changeStream": "it waits for changes",
}
"""Why names that are no misspellings of allowed ones are not allowed."""

_INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("$out", "$merge"), "leave the stage out: ktx prints the results"),
    **dict.fromkeys(
        ("$where", "$function"), "compute with the operators of MongoDB, for example $expr with $gt and $add"
    ),
    "$accumulator": "use $sum, $avg, $min, $max, $push or $addToSet",
    **dict.fromkeys(("$sample", "$sampleRate"), "use $limit, or --max-rows in ktx mongo-query"),
    "$graphLookup": "use $lookup for each level",
}
_COMMON: Final[Mapping[str, str]] = {
    "stage": "$match, $project, $group, $sort, $limit, $unwind and $lookup",
    "operator": "$eq, $gt, $in, $and, $cond, $sum and $avg",
    "variable": "$$ROOT, $$CURRENT, $$REMOVE and $$NOW",
}
"""What to use instead of names that are not allowed."""

EXAMPLE: Final = """'[{"$match": {"paid": true}}]'"""

_VALUES: Final = frozenset(
    {"str", "bool", "int", "float", "NoneType", "ObjectId", "datetime", "DatetimeMS", "Decimal128", "Int64"}
    | {"Regex", "Pattern", "Binary", "bytes", "UUID", "Timestamp", "MinKey", "MaxKey"}
)


class PipelineRefusedError(SourceError):
    """Raised for a pipeline that is not sent."""


@dataclass(frozen=True, slots=True)
class CollectionPaths:
    """What a pipeline may show of a collection: dotted paths, or None if it may show whole documents."""

    collection: str | None
    """The name, or None for the collection that the pipeline runs on."""
    paths: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class CheckedPipeline:
    """A pipeline that only reads. `collections`: the others that it names, which are in the same database."""

    pipeline: tuple[Mapping[str, Any], ...]
    collections: tuple[str, ...]
    reads: tuple[CollectionPaths, ...]

    @property
    def counted(self) -> frozenset[str]:
        """The fields of the results that contain only counts of documents."""
        return _counted(self.pipeline)

    def to_json(self) -> list[Any]:
        """Return the pipeline in Extended JSON."""
        from bson import json_util

        found: list[Any] = json.loads(json_util.dumps(list(self.pipeline)))
        return found

    @property
    def multiplies(self) -> str | None:
        """Return a stage that turns values into documents, so that the number of results shows a value, or None."""
        return next((name for name in ("$unwind",) if any(name in stage for stage in _all_stages(self.pipeline))), None)


def parse_pipeline(text: str, connection: str) -> list[dict[str, Any]]:
    """Return a pipeline in Extended JSON as BSON values. Raises `PipelineRefusedError` for other text."""
    from bson import json_util
    from bson.errors import BSONError

    if len(text) > MOST_CHARACTERS:
        raise refused(connection, f"it has {len(text):,} characters; the limit is {MOST_CHARACTERS:,}")
    try:
        json.loads(text, object_pairs_hook=_without_duplicates)
        found = json_util.loads(text)
    except json.JSONDecodeError as error:
        hint = f"write keys and texts in double quotes, for example: {EXAMPLE}"
        raise refused(connection, f"it is not valid JSON: {error.msg} at character {error.pos}", hint) from None
    except _DuplicateError as error:
        raise refused(connection, f"an object has the key `{error}` twice") from None
    except (BSONError, ValueError, TypeError, OverflowError, RecursionError):
        raise refused(connection, "it contains a value that is not valid Extended JSON") from None
    if isinstance(found, dict) and len(found) == 1 and next(iter(found)).startswith("$"):
        found = [found]
    if not isinstance(found, list):
        raise refused(connection, "it is not a list of stages", f"write a list of stages, for example: {EXAMPLE}")
    return found


class _DuplicateError(Exception):
    """Raised for a key that an object has twice; MongoDB and ktx might use different ones."""


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateError(key[:60])
        found[key] = value
    return found


def check_pipeline(pipeline: Sequence[Mapping[str, Any]], connection: str) -> CheckedPipeline:
    """Return the checked pipeline. Raises `PipelineRefusedError` for anything that is not known to only read."""
    check = _Check(connection)
    check.require_small(pipeline)
    check.stages(pipeline, ())
    stages = tuple(dict(stage) for stage in pipeline)
    reads = tuple(_reads(stages, None))
    return CheckedPipeline(stages, tuple(dict.fromkeys(check.collections)), reads)


def refused(connection: str, why: str, hint: str = "") -> PipelineRefusedError:
    """Return the error for a pipeline that is not sent. `why` continues a sentence about it."""
    message = f"connection `{connection}`: the pipeline was not run: {why}"
    return PipelineRefusedError(
        message, hint=hint or f"write a list of stages that only read, for example: {EXAMPLE}", code="read_only"
    )


class _Check:
    """One check of a pipeline. `collections`: the names of other collections in it."""

    def __init__(self, connection: str) -> None:
        self.connection = connection
        self.collections: list[str] = []
        self.count = 0

    def require_small(self, pipeline: Any) -> None:
        """Refuse a pipeline with too many or too deeply nested values, without recursion."""
        nodes, waiting = 0, [(pipeline, 0)]
        while waiting:
            value, depth = waiting.pop()
            nodes += 1
            if nodes > MOST_NODES:
                raise refused(self.connection, f"it has more than {MOST_NODES:,} values")
            if depth > DEEPEST:
                raise refused(self.connection, f"its values are nested deeper than {DEEPEST} levels")
            if isinstance(value, Mapping):
                waiting += ((each, depth + 1) for each in value.values())
            elif isinstance(value, list | tuple):
                waiting += ((each, depth + 1) for each in value)

    def stages(self, pipeline: Any, within: tuple[str, ...]) -> None:
        """Check a pipeline, which may be part of a stage: `within` are the stages around it."""
        if not isinstance(pipeline, list | tuple):
            raise refused(self.connection, "a pipeline must be a list of stages")
        for stage in pipeline:
            self.count += 1
            if self.count > MOST_STAGES:
                raise refused(self.connection, f"it has more than {MOST_STAGES} stages")
            if not isinstance(stage, Mapping) or len(stage) != 1:
                raise refused(self.connection, "each stage must be an object with a single key")
            ((name, spec),) = stage.items()
            if isinstance(name, str) and not name.startswith("$"):
                hint = f"put conditions in a $match stage, for example: {EXAMPLE}"
                raise refused(self.connection, f"`{name[:60]}` is not a stage", hint)
            if name not in STAGES:
                raise self._unknown(name, "stage", STAGES)
            if name == "$facet" and "$facet" in within:
                raise refused(self.connection, "`$facet` cannot contain another `$facet`")
            self._stage(name, spec, (*within, name))

    def _stage(self, name: str, spec: Any, within: tuple[str, ...]) -> None:
        if name == "$facet":
            for key, inner in self._object(name, spec).items():
                self._name(key)
                self.stages(inner, within)
        elif name == "$lookup":
            given = self._known(name, spec, {"from", "localField", "foreignField", "let", "pipeline", "as"})
            self._collection(name, given.get("from"))
            self._nested(given, within)
        elif name == "$unionWith":
            given = {"coll": spec} if isinstance(spec, str) else self._known(name, spec, {"coll", "pipeline"})
            self._collection(name, given.get("coll"))
            self._nested(given, within)
        elif name in ("$limit", "$skip"):
            if isinstance(spec, bool) or not isinstance(spec, int) or not 0 <= spec < 2**31:
                raise refused(self.connection, f"`{name}` needs a whole number")
        else:
            self.values(spec)
            if name == "$project":
                self._flags(spec)

    def _flags(self, spec: Any) -> None:
        """Refuse values of a projection that MongoDB may understand as other flags than ktx, such as a Decimal128."""
        for value in spec.values() if isinstance(spec, Mapping) else ():
            if isinstance(value, Mapping) and not any(key.startswith("$") for key in value):
                self._flags(value)
            elif not isinstance(value, bool | int | float | str | list | tuple | Mapping) or value != value:
                hint = "use 1 to keep a field, 0 to drop it, or an expression"
                raise refused(self.connection, "`$project` has a value that is not a flag or an expression", hint)

    def _nested(self, given: Mapping[str, Any], within: tuple[str, ...]) -> None:
        for key, value in given.items():
            if key == "pipeline":
                self.stages(value, within)
            else:
                self.values(value)

    def values(self, value: Any) -> None:
        """Check all operators, variables and types of values below a stage."""
        if isinstance(value, Mapping):
            for key, inner in value.items():
                self._name(key)
                if key.startswith("$") and key not in _OPERATORS:
                    raise self._unknown(key, "operator", _OPERATORS)
                self.values(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                self.values(inner)
        elif type(value).__name__ not in _VALUES:
            raise refused(self.connection, f"it contains a value of the type {type(value).__name__}")
        elif isinstance(value, str) and value.startswith("$$"):
            variable = value[2:].partition(".")[0]
            if variable[:1].isupper() and variable not in VARIABLES:
                raise self._unknown(f"$${variable}", "variable", {f"$${each}" for each in VARIABLES})

    def _name(self, key: Any) -> None:
        if not isinstance(key, str) or "\0" in key:
            raise refused(self.connection, "a key is not valid text")

    def _object(self, name: str, spec: Any) -> Mapping[str, Any]:
        if not isinstance(spec, Mapping):
            raise refused(self.connection, f"`{name}` needs an object")
        return spec

    def _known(self, name: str, spec: Any, keys: set[str]) -> Mapping[str, Any]:
        given = self._object(name, spec)
        unknown = sorted(map(str, set(given) - keys))
        if unknown:
            why = f"`{name}` has the key `{unknown[0][:60]}`"
            raise refused(self.connection, why, f"allowed keys: {listing(sorted(keys), 10)}")
        return given

    def _collection(self, stage: str, name: Any) -> None:
        if not isinstance(name, str) or not is_collection_name(name):
            hint = "name a collection of the same database, without its database"
            raise refused(self.connection, f"`{stage}` does not name an ordinary collection", hint)
        self.collections.append(name)

    def _unknown(self, name: Any, what: str, allowed: frozenset[str] | set[str]) -> PipelineRefusedError:
        shown = str(name)[:60]
        reason = _REASONS.get(shown)
        near = None if reason else did_you_mean(shown, allowed)
        hint = f"did you mean `{near}`?" if near else _INSTEAD.get(shown, f"use others, such as {_COMMON[what]}")
        because = f", because {reason}" if reason else ""
        return refused(self.connection, f"the {what} `{shown}` is not allowed{because}", hint)


def is_collection_name(name: str) -> bool:
    """Return whether a name is that of an ordinary collection in the database of the pipeline."""
    return bool(name) and not name.startswith("system.") and "$" not in name and "\0" not in name and len(name) < 256


def _all_stages(pipeline: Any) -> Iterator[Mapping[str, Any]]:
    for stage in pipeline:
        yield stage
        for name, spec in stage.items():
            if name == "$facet":
                for inner in spec.values():
                    yield from _all_stages(inner)
            elif name in ("$lookup", "$unionWith") and isinstance(spec, Mapping):
                yield from _all_stages(spec.get("pipeline") or ())


def _counted(pipeline: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the fields of results that are counts, if the last stages except sorting and limits make counts."""
    made = [stage for stage in pipeline if not stage.keys() & {"$sort", "$limit", "$skip"}]
    if not made:
        return frozenset()
    ((name, spec),) = made[-1].items()
    if pipeline.index(made[-1]) != len(pipeline) - 1 and name not in ("$count", "$group"):
        return frozenset()
    if name == "$count" and isinstance(spec, str):
        return frozenset({spec})
    if name != "$group" or not isinstance(spec, Mapping):
        return frozenset()
    ones: tuple[Mapping[str, Any], ...] = ({"$sum": 1}, {"$count": {}})
    return frozenset(key for key, each in spec.items() if key != "_id" and _is_count(each, ones))


def _is_count(value: Any, ones: Sequence[Mapping[str, Any]]) -> bool:
    return value in ones and not isinstance(next(iter(value.values())), bool)


def _reads(pipeline: Sequence[Mapping[str, Any]], collection: str | None) -> Iterator[CollectionPaths]:
    """Yield what a pipeline may show of its collection, and of the collections that it names."""
    yield CollectionPaths(collection, _shown(pipeline))
    for stage in pipeline:
        ((name, spec),) = stage.items()
        if name == "$lookup":
            inner = _shown(spec.get("pipeline") or ())
            foreign = spec.get("foreignField")
            own = {foreign} if isinstance(foreign, str) else set()
            yield CollectionPaths(spec["from"], None if inner is None else inner | own)
            yield from list(_reads(spec.get("pipeline") or (), spec["from"]))[1:]
        elif name == "$unionWith":
            given: Mapping[str, Any] = {"coll": spec} if isinstance(spec, str) else spec
            yield from _reads(given.get("pipeline") or (), given["coll"])
        elif name == "$facet":
            for inner_pipeline in spec.values():
                yield from list(_reads(inner_pipeline, collection))[1:]


def _shown(pipeline: Sequence[Mapping[str, Any]]) -> frozenset[str] | None:
    """Return the paths of its documents that a pipeline names before a stage limits them to these, or None."""
    named: set[str] = set()
    for stage in pipeline:
        ((name, spec),) = stage.items()
        if _names_whole(spec):
            return None
        if name == "$lookup":
            named |= _paths(spec.get("let") or {})
            named |= {spec["localField"]} if isinstance(spec.get("localField"), str) else set()
            continue
        if name == "$unionWith":
            continue
        if name == "$facet":
            parts = [_shown(inner) for inner in spec.values()]
            known = [part for part in parts if part is not None]
            return named.union(*known) if len(known) == len(parts) else None  # type: ignore[return-value]
        named |= _paths(spec)
        if name in _WHOLE_STAGES or (name == "$project" and not _includes(spec)):
            continue
        return frozenset(named | ({"_id"} if name == "$project" else set()))
    return None


def _includes(spec: Any) -> bool:
    """Return whether a `$project` lists the fields to keep rather than those to drop."""
    if not isinstance(spec, Mapping):
        return False
    given = [value for key, value in spec.items() if key != "_id"]
    return bool(given) and all(map(_keeps, given))


def _keeps(value: Any) -> bool:
    """Return whether a value in a projection is a true flag or an expression."""
    if isinstance(value, bool | int | float):
        return bool(value)
    if isinstance(value, Mapping) and not any(str(key).startswith("$") for key in value):
        return bool(value) and all(map(_keeps, value.values()))
    return isinstance(value, str | list | tuple | Mapping)


def _names_whole(value: Any) -> bool:
    """Return whether an expression names the entire document."""
    if isinstance(value, Mapping):
        return any(map(_names_whole, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_names_whole, value))
    return isinstance(value, str) and value[2:].partition(".")[0] in ("ROOT", "CURRENT") and value.startswith("$$")


def _paths(value: Any) -> set[str]:
    """Return every path that a stage may read: field names in expressions, and the keys of all objects."""
    if isinstance(value, Mapping):
        keys = {key for key in value if not key.startswith("$")}
        return keys.union(*(_paths(inner) for inner in value.values())) if value else keys
    if isinstance(value, list | tuple):
        return set().union(*map(_paths, value))
    is_path = isinstance(value, str) and value.startswith("$") and not value.startswith("$$")
    return {value[1:]} if is_path else set()
