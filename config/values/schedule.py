"""Times, periods and schedules of add-ons."""

import re
from typing import Annotated, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator

from config.values.text import matches

_FIELD = r"[0-9A-Za-z*?/,-]+"
_STEP = re.compile(r"0*[1-9][0-9]*")
# The numbers that Kubernetes takes: minute, hour, day of the month, month, day of the week.
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def _in_range(schedule: str) -> str:
    for text, (low, high) in zip(schedule.split(), _RANGES, strict=False):
        for part in text.split(","):
            values, slash, step = part.partition("/")
            numbers = [each.lstrip("0") or "0" for each in values.split("-") if each.isdigit()]
            if any(len(each) > 2 or not low <= int(each) <= high for each in numbers):
                raise ValueError(f"{text} is not within {low} to {high}")
            if slash and not _STEP.fullmatch(step):
                raise ValueError(f"{text} needs a number after '/', 1 or more")
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
    AfterValidator(_in_range),
]
TimeOfDay = Annotated[
    str, matches(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", "must be a time of day such as 03:30")
]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
Day = Literal["mo", "tu", "we", "th", "fr", "sa", "su"]
