//! `strftime_now`: Python's `datetime.now().strftime(...)` for an engine host's local time.

use minijinja::{Error, ErrorKind};

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A moment, taken apart.
#[derive(Clone, Copy, Debug)]
struct Moment {
    year: i64,
    month: usize,
    day: i64,
    day_of_year: i64,
    /// 0 is Monday.
    weekday: usize,
    second_of_day: i64,
    micros: i64,
}

impl Moment {
    /// `millis` are local: UTC plus the offset.
    fn new(millis: i64) -> Self {
        let seconds = millis.div_euclid(1000);
        let days = seconds.div_euclid(86_400);
        let (year, month, day) = civil(days);
        Self {
            year,
            month,
            day,
            day_of_year: days - days_from_civil(year, 1, 1) + 1,
            weekday: usize::try_from((days + 3).rem_euclid(7)).unwrap_or(0),
            second_of_day: seconds.rem_euclid(86_400),
            micros: millis.rem_euclid(1000) * 1000,
        }
    }

    fn hour12(&self) -> i64 {
        match self.second_of_day / 3600 % 12 {
            0 => 12,
            hour => hour,
        }
    }
}

/// Year, month from 1 and day from 1 of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, usize, i64) {
    // Count from 1 March of year 0, so that leap days come last in their year and 400-year eras are alike.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, usize::try_from(month).unwrap_or(1), day)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Formats the local time `millis` after 1970.
///
/// # Errors
/// A directive that is not known here, rather than a guess.
pub fn strftime(format: &str, millis: i64) -> Result<String, Error> {
    let moment = Moment::new(millis);
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        match chars.next() {
            Some('-') => {
                let padded = directive(chars.next(), &moment)?;
                let trimmed = padded.trim_start_matches(['0', ' ']);
                out.push_str(if trimmed.is_empty() { "0" } else { trimmed });
            }
            code => out.push_str(&directive(code, &moment)?),
        }
    }
    Ok(out)
}

fn directive(code: Option<char>, moment: &Moment) -> Result<String, Error> {
    let Moment { year, month, day, day_of_year, weekday, second_of_day, micros, .. } = *moment;
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    let month_name = MONTHS.get(month.wrapping_sub(1)).copied().unwrap_or_default();
    let day_name = WEEKDAYS.get(weekday).copied().unwrap_or_default();
    let short = |name: &str| name.get(..3).unwrap_or(name).to_owned();
    let monday_based = i64::try_from(weekday).unwrap_or(0);
    Ok(match code {
        Some('Y') => format!("{year}"),
        Some('y') => format!("{:02}", year.rem_euclid(100)),
        Some('C') => format!("{:02}", year.div_euclid(100)),
        Some('m') => format!("{month:02}"),
        Some('d') => format!("{day:02}"),
        Some('e') => format!("{day:2}"),
        Some('j') => format!("{day_of_year:03}"),
        Some('B') => month_name.to_owned(),
        Some('b' | 'h') => short(month_name),
        Some('A') => day_name.to_owned(),
        Some('a') => short(day_name),
        Some('u') => format!("{}", monday_based + 1),
        Some('w') => format!("{}", (monday_based + 1) % 7),
        Some('U') => format!("{:02}", (day_of_year + 6 - (monday_based + 1) % 7) / 7),
        Some('W') => format!("{:02}", (day_of_year + 6 - monday_based) / 7),
        Some('H') => format!("{hour:02}"),
        Some('I') => format!("{:02}", moment.hour12()),
        Some('M') => format!("{minute:02}"),
        Some('S') => format!("{second:02}"),
        Some('f') => format!("{micros:06}"),
        Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        Some('F') => format!("{year}-{month:02}-{day:02}"),
        Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
        Some('R') => format!("{hour:02}:{minute:02}"),
        Some('D' | 'x') => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
        Some('X') => format!("{hour:02}:{minute:02}:{second:02}"),
        Some('c') => {
            format!("{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}", short(day_name), short(month_name))
        }
        // Python's `datetime.now()` has no time zone: both print nothing.
        Some('z' | 'Z') => String::new(),
        Some('n') => "\n".to_owned(),
        Some('t') => "\t".to_owned(),
        Some('%') => "%".to_owned(),
        other => {
            let code = other.map_or(String::new(), String::from);
            return Err(Error::new(ErrorKind::InvalidOperation, format!("strftime_now: %{code} is not supported")));
        }
    })
}
