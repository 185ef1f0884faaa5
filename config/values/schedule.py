"""Times, periods and schedules of add-ons."""

from typing import Annotated, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator

from config.values.text import matches

_FIELD = r"[0-9A-Za-z*?/,-]+"


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
]
TimeOfDay = Annotated[
    str, matches(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", "must be a time of day such as 03:30")
]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
Day = Literal["mo", "tu", "we", "th", "fr", "sa", "su"]
