"""Times, periods and schedules of add-ons."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator

from config.values.text import matches

_FIELD = r"[0-9A-Za-z*?/,-]+"
_STEP = re.compile(r"0*[1-9][0-9]*")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# The numbers that Kubernetes takes, and names for them: minute, hour, day of the month, month, day
# of the week.
_RANGES: tuple[tuple[int, int, Sequence[str]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


def _as_kubernetes_reads_it(schedule: str) -> str:
    if schedule.startswith("@"):
        return schedule
    for text, (low, high, names) in zip(schedule.split(), _RANGES, strict=True):
        numbers = {name: str(low + index) for index, name in enumerate(names)}
        for part in text.split(","):
            values, slash, step = part.partition("/")
            if slash and not _STEP.fullmatch(step):
                raise ValueError(f"{text} needs a number after '/', 1 or more")
            if values in ("*", "?"):
                continue
            ends = [numbers.get(each.lower(), each) for each in values.split("-")]
            if len(ends) > 2 or not all(map(str.isdigit, ends)):
                also = f", with names from {names[0]} to {names[-1]}" if names else ""
                raise ValueError(f"{text} must be *, N or N-M, or several with commas{also}")
            first, last = int(ends[0]), int(ends[-1])
            if not low <= min(first, last) <= max(first, last) <= high:
                raise ValueError(f"{text} is not within {low} to {high}")
            if first > last:
                raise ValueError(f"{text} must have the smaller number first")
    return schedule


def _time_zone(name: str) -> str:
    # A machine without the database knows no zone; those that use the zone have one.
    known = available_timezones()
    if known and name not in known:
        raise ValueError("must be a name of the time zone database, such as Europe/Berlin")
    return name


Period = Annotated[
    str, matches(r"[1-9][0-9]*[hdwy]", "must be a period such as 12h, 15d, 4w or 1y")
]
CronSchedule = Annotated[
    str,
    matches(
        rf"@(yearly|monthly|weekly|daily|hourly)|{_FIELD}( {_FIELD}){{4}}",
        "must be a cron schedule of five fields, such as '30 2 * * *', or @daily",
    ),
    AfterValidator(_as_kubernetes_reads_it),
]
TimeOfDay = Annotated[
    str, matches(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", "must be a time of day such as 03:30")
]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
Day = Literal["mo", "tu", "we", "th", "fr", "sa", "su"]
