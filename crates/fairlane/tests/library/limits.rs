//! Shares and limits of groups and types.

use fairlane::{Fairlane, Job, Rate, parse_rate};

#[tokio::test]
async fn changed_settings_of_a_group_are_applied_and_the_others_stay() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    assert!(fairlane.group("customer-7").view().await.unwrap().is_none());
    let group = fairlane.group("customer-7").weight(3).rate("50/s burst 5").concurrency(10).base_priority(-7);
    let settings = group.apply().await.unwrap();
    assert_eq!((settings.weight.get(), settings.concurrency, settings.base_priority), (3, Some(10), -7));
    assert_eq!(settings.rate, Some(parse_rate("50/s burst 5").unwrap()));
    let paused = fairlane.group("customer-7").pause().apply().await.unwrap();
    assert!(paused.paused && paused.weight.get() == 3);
    let free = fairlane.group("customer-7").resume().no_rate().no_concurrency().apply().await.unwrap();
    assert_eq!((free.paused, free.rate, free.concurrency, free.weight.get()), (false, None, None, 3));
}

#[tokio::test]
async fn changed_settings_of_a_type_are_applied_and_the_others_stay() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let rate = Rate::per_second(20).unwrap();
    let mail = fairlane.job_type("mail").rate(rate).concurrency(4).max_retry_count(9).pause();
    let settings = mail.apply().await.unwrap();
    assert_eq!(
        (settings.rate, settings.concurrency, settings.max_retry_count),
        (Some(rate), Some(4), Some(9))
    );
    assert!(settings.paused);
    let free = fairlane.job_type("mail").no_rate().no_concurrency().default_max_retry_count().resume();
    free.apply().await.unwrap();
    let view = fairlane.job_type("mail").view().await.unwrap().unwrap();
    assert_eq!(view.settings, fairlane::TypeSettings::default());
}

#[tokio::test]
async fn invalid_settings_are_rejected_with_the_allowed_range() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let group = || fairlane.group("customer-7");
    let weight = group().weight(0).apply().await.unwrap_err().to_string();
    assert!(weight.contains("between 1 and 1000"), "{weight}");
    let rate = group().rate("fast").apply().await.unwrap_err().to_string();
    assert!(rate.contains("10/min"), "{rate}");
    let seats = fairlane.job_type("mail").concurrency(0).apply().await.unwrap_err().to_string();
    assert!(seats.contains("a concurrency must be"), "{seats}");
    assert!(fairlane.group("").view().await.unwrap_err().to_string().contains("must not be empty"));
}

#[tokio::test]
async fn groups_their_bulk_actions_and_their_congestion_are_listed() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    for group in ["a", "b", "c"] {
        fairlane.enqueue(Job::new(group, "mail", &1)).await.unwrap().accepted().unwrap();
        fairlane.bulk(group, "newsletter").open().await.unwrap();
    }
    let first = fairlane.groups(None, 2).await.unwrap();
    assert_eq!(first.len(), 2);
    let rest = fairlane.groups(Some(first[1].group.clone()), 2).await.unwrap();
    assert_eq!(rest[0].group.to_string(), "c");
    fairlane.group("set").weight(3).apply().await.unwrap();
    assert_eq!(fairlane.groups(None, 10).await.unwrap().len(), 3);
    let all = fairlane.all_groups(None, 10).await.unwrap();
    assert_eq!((all.len(), all[3].group.to_string(), all[3].settings.weight.get()), (4, "set".into(), 3));
    let (bulks, next) = fairlane.group("a").bulks(0, 10).await.unwrap();
    assert_eq!((bulks.len(), next), (1, None));
    assert_eq!(fairlane.group("a").congestion().await.unwrap().unwrap().waiting, 1);
}
