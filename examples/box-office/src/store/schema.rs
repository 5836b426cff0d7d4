//! Tables, constraints and the sample concerts.

use rusqlite::{Connection, TransactionBehavior, params};

use super::StoreError;

/// Seats in a row of the plan.
pub const SEATS_PER_ROW: u32 = 10;
/// Most seats of a schedule: 26 rows, A to Z.
pub const SEATS_MAX: u32 = 26 * SEATS_PER_ROW;

/// `reservation_live` is what makes a double sale impossible: a seat has at most one reservation that
/// is held, being paid or confirmed.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS concert (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    venue TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS schedule (
    id TEXT PRIMARY KEY,
    concert TEXT NOT NULL REFERENCES concert (id),
    date TEXT NOT NULL,
    capacity INTEGER NOT NULL CHECK (capacity > 0),
    price INTEGER NOT NULL CHECK (price > 0),
    first_confirmed_at INTEGER,
    sold_out_at INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS seat (
    id INTEGER PRIMARY KEY,
    schedule TEXT NOT NULL REFERENCES schedule (id),
    number INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    UNIQUE (schedule, number)
) STRICT;
CREATE TABLE IF NOT EXISTS reservation (
    id TEXT PRIMARY KEY,
    seat INTEGER NOT NULL REFERENCES seat (id),
    user TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('HELD', 'PAYING', 'CONFIRMED', 'EXPIRED', 'CANCELLED')),
    price INTEGER NOT NULL,
    held_until INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    paying_since INTEGER,
    confirmed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS reservation_live ON reservation (seat)
    WHERE status IN ('HELD', 'PAYING', 'CONFIRMED');
CREATE INDEX IF NOT EXISTS reservation_user ON reservation (user);
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS outbox_lane ON outbox (lane, id);
CREATE TABLE IF NOT EXISTS secret (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
";

/// The sample concerts: title and venue.
const CONCERTS: [(&str, &str); 5] = [
    ("Aurora Strings", "Grand Hall"),
    ("Night Trains", "Dockside Arena"),
    ("The Paper Lanterns", "Riverside Theatre"),
    ("Vela and the Low Tide", "Lighthouse Stage"),
    ("Seoul Brass Collective", "Glass Pavilion"),
];

/// What is on sale in a new database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// Number of schedules, which the sample concerts share.
    pub schedules: u32,
    /// Seats of each schedule.
    pub seats: u32,
    /// The price of a seat in points.
    pub price: u32,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self { schedules: 10, seats: 50, price: 100 }
    }
}

/// Makes the tables, and the sample concerts in a file without any.
pub fn prepare(connection: &mut Connection, catalogue: &Catalogue) -> Result<(), StoreError> {
    // Instances that start together make the tables once.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    let is_empty =
        transaction.query_row("SELECT NOT EXISTS (SELECT 1 FROM concert)", [], |row| row.get(0))?;
    if is_empty {
        for (index, (title, venue)) in CONCERTS.iter().enumerate() {
            let id = format!("concert-{}", index + 1);
            transaction.execute("INSERT INTO concert VALUES (?1, ?2, ?3)", params![id, title, venue])?;
        }
        for number in 1..=catalogue.schedules {
            add_schedule(&transaction, number, catalogue)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn add_schedule(connection: &Connection, number: u32, catalogue: &Catalogue) -> Result<(), StoreError> {
    let (id, index) = (format!("schedule-{number:03}"), number - 1);
    let concert = format!("concert-{}", index % CONCERTS.len() as u32 + 1);
    // A day apart, in months of 28 days.
    let date = format!("2027-{:02}-{:02}", index / 28 % 12 + 1, index % 28 + 1);
    let schedule = "INSERT INTO schedule (id, concert, date, capacity, price) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.execute(schedule, params![id, concert, date, catalogue.seats, catalogue.price])?;
    let mut seat = connection.prepare("INSERT INTO seat (schedule, number) VALUES (?1, ?2)")?;
    for number in 1..=catalogue.seats {
        seat.execute(params![id, number])?;
    }
    Ok(())
}
