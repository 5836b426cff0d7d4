//! Whether seats, money and boards agree.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::boards::Boards;
use crate::now_ms;
use crate::shop::Shop;

/// Most schedules whose boards are compared.
const SCHEDULES_MAX: usize = 100;

/// What an audit found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Confirmed seats.
    pub sold: u64,
    /// Seats of all schedules.
    pub seats: u64,
    /// Points that the provider has taken.
    pub points: u64,
    /// Rows of the outbox, payments and holds that are not done; the boards may be behind by these.
    pub open: u64,
    /// What does not agree, a sentence each.
    pub problems: Vec<String>,
}

/// Compares the database with the provider and the boards. While a sale is on, the provider may be
/// ahead by the payments that are under way; an audit is exact when nothing is [open](Audit::open).
pub async fn audit(shop: &Shop, boards: &Boards) -> Result<Audit, Box<dyn std::error::Error + Send + Sync>> {
    let counts = shop.store.counts().await?;
    let concerts = shop.store.concerts(now_ms()).await?;
    let takings = shop.provider.takings().await?;
    let sold: u64 = counts.confirmed.values().sum();
    let seats = concerts.iter().flat_map(|concert| &concert.schedules).map(|it| u64::from(it.capacity)).sum();
    let open = shop.store.outbox_len().await? + counts.paying + counts.held;
    let mut problems = Vec::new();
    let mut check = |agrees: bool, problem: String| {
        if !agrees {
            problems.push(problem);
        }
    };
    check(counts.sold_twice == 0, format!("{} seats are sold twice", counts.sold_twice));
    check(
        takings.charged == counts.points,
        format!("the provider has taken {} points for seats of {}", takings.charged, counts.points),
    );
    check(
        takings.missing == takings.charged,
        format!("accounts miss {} points, {} were charged", takings.missing, takings.charged),
    );
    let popular = boards.popular(SCHEDULES_MAX).await?;
    let counted: BTreeMap<String, u64> =
        popular.into_iter().map(|entry| (entry.schedule_id, entry.reservation_count.unwrap_or(0))).collect();
    check(
        counted == counts.confirmed,
        format!("the popular board has {counted:?}, the database {:?}", counts.confirmed),
    );
    let fastest = boards.sold_out(SCHEDULES_MAX).await?;
    let times: BTreeMap<String, u64> = fastest
        .into_iter()
        .map(|entry| (entry.schedule_id, millis(entry.sold_out_duration_sec.unwrap_or(-1.0))))
        .collect();
    check(
        times == counts.sold_out_ms,
        format!("the board of selling out has {times:?}, the database {:?}", counts.sold_out_ms),
    );
    Ok(Audit { sold, seats, points: takings.charged, open, problems })
}

fn millis(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}
