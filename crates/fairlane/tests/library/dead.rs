//! Dead jobs: filters, requeue and discard over several pages.

use std::time::Duration;

use fairlane::{Context, Fairlane, Job, JobState, Outcome, Pool, Settings};

/// A worker whose jobs all fail, with their payload as the code.
fn failing(fairlane: &Fairlane) -> Pool {
    let fail = |code: String, _: Context| async move { Outcome::failed(code, "it never works") };
    fairlane.worker().process("mail", fail).process("text", fail).start().unwrap()
}

async fn all_dead(fairlane: &Fairlane, count: u64) {
    while fairlane.queue_view().await.unwrap().failed < count {
        tokio::task::yield_now().await;
    }
}

/// 700 dead jobs of one customer, more than a page, and 10 of another customer and type.
async fn graveyard() -> Fairlane {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let code = |number: u32| if number.is_multiple_of(7) { "rare" } else { "frequent" };
    let letters = (0..700).map(|number| Job::new("customer-7", "mail", &code(number)));
    let texts = (0..10).map(|_| Job::new("customer-8", "text", &"rare"));
    fairlane.enqueue_all(letters.chain(texts)).await.unwrap();
    let pool = failing(&fairlane);
    all_dead(&fairlane, 710).await;
    pool.stop().await;
    fairlane
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let fairlane = graveyard().await;
    let dead = || fairlane.dead();
    assert_eq!(dead().list(10_000).await.unwrap().len(), 710);
    assert_eq!(dead().list(3).await.unwrap().len(), 3);
    assert_eq!(dead().group("customer-8").list(100).await.unwrap().len(), 10);
    assert_eq!(dead().job_type("mail").code("rare").list(1000).await.unwrap().len(), 100);
    assert_eq!(dead().code("unknown").list(10).await.unwrap().len(), 0);
    assert_eq!(dead().older_than(Duration::from_secs(3600)).list(10).await.unwrap().len(), 0);
    assert!(dead().group("").list(1).await.is_err());
}

#[tokio::test]
async fn selected_jobs_are_requeued_on_every_page() {
    let fairlane = graveyard().await;
    let counts = fairlane.dead().code("frequent").requeue().await.unwrap();
    assert_eq!((counts.requeued, counts.full, counts.not_dead, counts.unknown), (600, 0, 0, 0));
    let totals = fairlane.queue_view().await.unwrap();
    assert_eq!((totals.failed, totals.backlog), (110, 600));
}

#[tokio::test]
async fn jobs_that_die_again_do_not_keep_a_requeue_going() {
    let fairlane = graveyard().await;
    let pool = failing(&fairlane);
    let counts = fairlane.dead().requeue().await.unwrap();
    assert_eq!(counts.requeued, 710);
    all_dead(&fairlane, 710).await;
    let counts = fairlane.dead().group("customer-7").requeue().await.unwrap();
    assert_eq!(counts.requeued, 700);
    all_dead(&fairlane, 710).await;
    pool.stop().await;
}

#[tokio::test]
async fn jobs_without_room_in_the_queue_stay_dead() {
    let fairlane = graveyard().await;
    let settings = Settings { group_backlog_max: 100, ..Settings::default() };
    let set = fairlane_core::queue::SetQueue { settings };
    fairlane.engine().call(set).await.unwrap();
    let counts = fairlane.dead().group("customer-7").requeue().await.unwrap();
    assert_eq!((counts.requeued, counts.full), (100, 600));
}

#[tokio::test]
async fn selected_jobs_are_discarded_on_every_page() {
    let fairlane = graveyard().await;
    let counts = fairlane.dead().group("customer-7").discard().await.unwrap();
    assert_eq!((counts.discarded, counts.not_dead, counts.unknown), (700, 0, 0));
    let left = fairlane.dead().list(100).await.unwrap();
    assert!(left.len() == 10 && left.iter().all(|line| line.state == JobState::Failed));
}
