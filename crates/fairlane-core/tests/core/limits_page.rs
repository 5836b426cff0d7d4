//! `docs/limits.md` says what the code says.

use fairlane_core::limits::*;

const PAGE: &str = include_str!("../../../../docs/limits.md");

/// The constants on the page with their values as the page writes them.
fn documented() -> Vec<(&'static str, String)> {
    macro_rules! written {
        ($($unit:ident: $($name:ident),+;)+) => {
            vec![$($((stringify!($name), $unit($name as u64))),+),+]
        };
    }
    written! {
        count: COST_MAX, ATTEMPTS_MAX, ENQUEUE_JOBS_MAX, LEASE_JOBS_MAX, SETTLE_JOBS_MAX, TYPES_MAX, WEIGHT_MAX,
            RATE_COUNT_MAX, CONCURRENCY_MAX, GROUP_BACKLOG_MAX, QUEUE_BACKLOG_MAX, COMPLETED_KEPT_MAX,
            FAILED_KEPT_MAX, GROUP_BULKS_MAX, LOCKS_MAX, LOCK_WAITERS_MAX, LOCK_PERMITS_MAX, ROOMS_MAX,
            ROOM_PLACES_MAX, ROOM_ACTIVE_LIMIT, ROOM_CLASSES_MAX, BOARDS_MAX, BOARD_MEMBERS_MAX, BOARD_EVENTS_MAX,
            BOARD_EVENTS_LIMIT, BOARD_TIMED_SCORE_MAX, BOARD_SEASONS_KEPT, RECORD_EVENTS_MAX, LIST_RANKS_MAX,
            PROGRESS_REPORTS_MAX, ACTIVITY_MAX, LIST_ACTIVITY_MAX, BOARD_HOURS_KEPT, BOARD_DAYS_KEPT, BOARD_WEEKS_KEPT;
        bytes: PAYLOAD_BYTES_MAX, NOTE_BYTES_MAX, NAME_BYTES_MAX, ENQUEUE_BYTES_MAX, LEASE_BYTES_MAX,
            GROUP_STORED_BYTES_MAX, STORED_BYTES_MAX, BULK_PAYLOAD_BYTES_MAX, LOCK_NAME_BYTES_MAX, ROOM_REASON_BYTES_MAX,
            ACTIVITY_TEXT_BYTES_MAX;
        time: DELAY_MS_MAX, LEASE_MS_MAX, RETRY_AFTER_MS_MAX, COMPLETED_RETENTION_MS, FAILED_RETENTION_MS,
            BULK_RETENTION_MS, LOCK_TTL_MS_MAX, LOCK_HOLD_MS_MAX, ROOM_TTL_MS_MAX,
            BOARD_HORIZON_MS, BOARD_HORIZON_MS_MAX, BOARD_AHEAD_MS;
        levels: JSON_DEPTH_MAX;
    }
}

fn count(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let groups =
        digits.as_bytes()[first..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let parts: Vec<String> =
        (first > 0).then(|| digits[..first].to_owned()).into_iter().chain(groups).collect();
    parts.join(",")
}

fn bytes(number: u64) -> String {
    if number.is_multiple_of(1024) {
        format!("{} KiB", count(number / 1024))
    } else {
        format!("{number} bytes")
    }
}

fn time(ms: u64) -> String {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let (number, unit) = if ms.is_multiple_of(DAY) { (ms / DAY, "day") } else { (ms / 60_000, "minute") };
    format!("{} {unit}{}", count(number), if number == 1 { "" } else { "s" })
}

fn levels(number: u64) -> String {
    format!("{number} levels")
}

#[test]
fn every_limit_on_the_page_has_its_value_of_the_code() {
    let rows: Vec<Vec<&str>> = PAGE
        .lines()
        .filter(|line| line.contains("| `"))
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    let documented = documented();
    for row in &rows {
        let (value, name) = (row[2], row[3]);
        let expected = documented.iter().find(|(other, _)| *other == name);
        let (_, expected) = expected.unwrap_or_else(|| panic!("{name} is not compared: add it to this test"));
        assert_eq!(value, expected, "{name}");
    }
    assert_eq!(rows.len(), documented.len(), "a limit that is compared is missing on the page");
}
