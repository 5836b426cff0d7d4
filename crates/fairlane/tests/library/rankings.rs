//! Boards as an application uses them, among them those of a box office.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fairlane::{
    BoardOrder, BoardOutcome, BoardRule, BoardSettings, BoardWindows, Error, Fairlane, JobState, Ranking,
    RankingError, RankingLines, Standing, WindowKind,
};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use tracing::field::{Field, Visit};
use tracing::span;

/// A subscriber that collects warnings, a line for each.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<String>>);

impl Warnings {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().lines().map(str::to_owned).collect()
    }
}

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0.lock().unwrap(), "{field}={value:?} ").unwrap();
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN && metadata.target() == "fairlane"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
        self.0.lock().unwrap().push('\n');
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The boards of a box office, with the capacity of each schedule.
struct BoxOffice {
    counts: Ranking,
    first: Ranking,
    sold_out: Ranking,
    capacity: BTreeMap<&'static str, i64>,
}

impl BoxOffice {
    async fn open(fairlane: &Fairlane) -> Self {
        let counts = fairlane.ranking("reservation-count");
        counts.create(BoardSettings::default()).await.unwrap();
        let order = BoardOrder::Ascending;
        let first = fairlane.ranking("first-reservation");
        let settings = BoardSettings { rule: BoardRule::Maximum, order, ..BoardSettings::default() };
        first.create(settings).await.unwrap();
        let sold_out = fairlane.ranking("sold-out-speed");
        let settings =
            BoardSettings { rule: BoardRule::Latest, order, decimals: 3, ..BoardSettings::default() };
        sold_out.create(settings).await.unwrap();
        Self { counts, first, sold_out, capacity: BTreeMap::from([("s1", 50), ("s2", 2)]) }
    }

    /// A reservation is confirmed at this time. The first time is that of the earliest event, and the
    /// last seat gives the duration.
    async fn confirm(&self, id: &str, schedule: &'static str, at: SystemTime) {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
        self.counts.record(id, schedule, at).await.unwrap();
        self.first.set(schedule, 0, since, at).await.unwrap();
        let count = self.counts.rank(Standing::All, schedule).await.unwrap().unwrap().entry.score;
        if count >= self.capacity[schedule] {
            let first = self.first.rank(Standing::All, schedule).await.unwrap().unwrap().entry.score;
            self.sold_out.set(schedule, 1, since - first, at).await.unwrap();
        }
    }
}

fn names(entries: &[fairlane::RankEntry]) -> Vec<(String, i64)> {
    entries.iter().map(|entry| (entry.member.to_string(), entry.score)).collect()
}

fn refused(result: Result<impl std::fmt::Debug, Error>) -> RankingError {
    match result {
        Err(Error::Ranking(error)) => error,
        other => panic!("not refused by the board: {other:?}"),
    }
}

async fn memory() -> Fairlane {
    Fairlane::open("memory:").await.unwrap()
}

fn start() -> SystemTime {
    SystemTime::now() - Duration::from_secs(3600)
}

#[tokio::test]
async fn first_time_is_that_of_the_earliest_reservation_and_written_once() {
    let office = BoxOffice::open(&memory().await).await;
    let start = start();
    for (id, offset_s) in [("r1", 5), ("r2", 0), ("r3", 9), ("r2", 0)] {
        office.confirm(id, "s1", start + Duration::from_secs(offset_s)).await;
    }
    let first = office.first.top(1).await.unwrap()[0].score;
    assert_eq!(first, start.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64);
    assert_eq!(names(&office.counts.top(10).await.unwrap()), [("s1".to_owned(), 3)]);
}

/// Erratum R2.
#[tokio::test]
async fn last_seat_records_the_exact_duration_once() {
    let office = BoxOffice::open(&memory().await).await;
    let start = start();
    for number in 0..49_u64 {
        office.confirm(&format!("r{number}"), "s1", start + Duration::from_millis(number * 600)).await;
    }
    assert_eq!(office.sold_out.top(10).await.unwrap(), [], "one seat is left");
    office.confirm("r49", "s1", start + Duration::from_millis(30_500)).await;
    office.confirm("r49", "s1", start + Duration::from_millis(30_500)).await;
    office.confirm("r50", "s1", start + Duration::from_millis(40_000)).await;
    office.confirm("x1", "s2", start).await;
    office.confirm("x2", "s2", start + Duration::from_millis(100)).await;
    let board = office.sold_out.top(10).await.unwrap();
    assert_eq!(names(&board), [("s2".to_owned(), 100), ("s1".to_owned(), 30_500)], "fastest first");
}

#[tokio::test]
async fn boards_have_their_keys_on_one_server() {
    let server = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&server.url()).await.unwrap();
    let office = BoxOffice::open(&fairlane).await;
    let start = start();
    office.confirm("x1", "s2", start).await;
    office.confirm("x2", "s2", start + Duration::from_millis(30_500)).await;
    let score = |key: &str| server.command(&["ZSCORE", key, "s2"]).trim().to_owned();
    assert!(score("ranking:reservation-count").starts_with("2."), "{}", score("ranking:reservation-count"));
    assert_eq!(score("ranking:sold-out-speed"), "30.5");
    let first_ms = start.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis().to_string();
    assert_eq!(score("ranking:first-reservation"), first_ms);
}

/// Erratum R1.
#[tokio::test]
async fn simultaneous_updates_lose_and_double_nothing() {
    let server = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&server.url()).await.unwrap();
    let board = fairlane.ranking("popular");
    board.create(BoardSettings::default()).await.unwrap();
    let at = start();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let board = board.clone();
            tokio::spawn(async move {
                for number in 0..50 {
                    board.record(&format!("r{number}"), "s1", at).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(names(&board.top(10).await.unwrap()), [("s1".to_owned(), 50)]);
}

#[tokio::test]
async fn refused_update_is_an_error_that_says_the_cure() {
    let board = memory().await.ranking("popular");
    assert_eq!(
        refused(board.record("r1", "s1", start()).await),
        RankingError::UnknownBoard("popular".into())
    );
    board.create(BoardSettings::default()).await.unwrap();
    let old = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    let error = refused(board.record("r1", "s1", old).await);
    assert_eq!(error, RankingError::Refused { id: "r1".into(), outcome: BoardOutcome::TooOld });
    assert!(error.to_string().contains("rebuild"), "{error}");
    assert_eq!(refused(board.set("s1", 1, 1, start()).await), RankingError::WrongRule);
}

/// On every engine that the library opens by address: in memory, in a directory, on Redis.
#[tokio::test]
async fn window_that_a_board_does_not_have_is_refused_by_every_read() {
    let (folder, redis) = (tempfile::TempDir::new().unwrap(), RedisServer::start(ServerOptions::default()));
    for address in ["memory:".to_owned(), format!("dir:{}", folder.path().display()), redis.url()] {
        let board = Fairlane::open(&address).await.unwrap().ranking("popular");
        let windows = BoardWindows { day: true, week: true, ..BoardWindows::default() };
        board.create(BoardSettings { windows, ..BoardSettings::default() }).await.unwrap();
        let of = |kind| Standing::Window { kind, at_ms: None };
        let (hour, day) = (of(WindowKind::Hour), of(WindowKind::Day));
        assert_eq!(board.page(day.clone(), 0, 10).await.unwrap().members, 0, "a window without events");
        assert_eq!(board.rank(day, "s1").await.unwrap(), None);
        board.record("r1", "s1", SystemTime::now()).await.unwrap();
        let error = refused(board.page(hour.clone(), 0, 10).await);
        assert!(error.to_string().contains("no window hour; its windows are day and week"), "{error}");
        assert_eq!(refused(board.around(hour.clone(), "s1", 1, 10).await), error);
        assert_eq!(refused(board.rank(hour.clone(), "s1").await), error);
        assert_eq!(refused(board.ranks(hour, &["s1", "s2"]).await), error);
    }
}

#[tokio::test]
async fn failed_board_update_is_logged() {
    let board = memory().await.ranking("popular");
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    let _ = board.record("r1", "s1", start()).await.unwrap_err();
    let lines = warnings.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["message=board update failed", "board=popular", "there is no board"] {
        assert!(lines[0].contains(part), "{part} is not in {lines:?}");
    }
    board.create(BoardSettings::default()).await.unwrap();
    let old = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    let old_ms = old.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
    let event = |id: &str, at_ms| fairlane::NewEvent {
        id: fairlane::EventId::new(id).unwrap(),
        member: fairlane::MemberId::new("s1").unwrap(),
        delta: 1,
        at_ms,
    };
    let outcomes = board.record_all(vec![event("r2", old_ms), event("r3", old_ms)]).await.unwrap();
    assert_eq!(outcomes, [BoardOutcome::TooOld; 2]);
    let lines = warnings.lines();
    assert_eq!(lines.len(), 2, "one line for a command, whatever the number of events in it: {lines:?}");
    for part in ["message=board updates refused", "board=popular", "id=r2", "refused=2", "rebuild the board"]
    {
        assert!(lines[1].contains(part), "{part} is not in {lines:?}");
    }
    board.record("r4", "s1", start()).await.unwrap();
    assert_eq!(warnings.lines().len(), 2, "an update that was taken is not logged");
}

#[tokio::test]
async fn audit_keeps_a_bounded_number_of_members_and_lists_the_first_differences() {
    let board = memory().await.ranking("popular");
    board.create(BoardSettings::default()).await.unwrap();
    let line = |number: u64| {
        format!("{{\"id\": \"r{number}\", \"member\": \"s{number:03}\", \"at\": 1700000000000}}\n")
    };
    let source: String = (0..150).rev().map(line).collect();
    let audit = board.audit(&mut RankingLines::new(source.as_bytes())).await.unwrap();
    assert_eq!((audit.members, audit.differing, audit.differences.len()), (150, 150, 100));
    assert_eq!((&*audit.differences[0].member, &*audit.differences[99].member), ("s000", "s099"));
    let refused = board.audit_up_to(149, &mut RankingLines::new(source.as_bytes())).await;
    assert_eq!(refused.map(|_| ()).map_err(|error| error.to_string().contains("149 members")), Err(true));
}

#[tokio::test]
async fn season_closes_once_with_one_job() {
    let fairlane = memory().await;
    let board = fairlane.ranking("popular");
    board.create(BoardSettings::default()).await.unwrap();
    board.record("r1", "s1", start()).await.unwrap();
    let closed = board.close_season_with_job(1, "system", "season").await.unwrap();
    assert!(closed.is_announced_now);
    assert_eq!(names(&closed.entries), [("s1".to_owned(), 1)]);
    let again = board.close_season_with_job(1, "system", "season").await.unwrap();
    assert!(!again.is_announced_now && again.entries == closed.entries);
    let job = fairlane.job("system", "season-popular-1").view().await.unwrap().expect("it was enqueued");
    assert_eq!(job.state, JobState::Pending);
    assert_eq!(refused(board.close_season(3).await), RankingError::NotBegun(3));
}

/// Erratum R3.
#[tokio::test]
async fn rebuilt_board_equals_its_source() {
    let board = memory().await.ranking("popular");
    board.create(BoardSettings::default()).await.unwrap();
    board.record("wrong", "s9", start()).await.unwrap();
    let line = |number: u64| {
        format!("{{\"id\": \"r{number}\", \"member\": \"s{}\", \"at\": 1700000000000}}\n", number % 3)
    };
    let source: String = (0..250).map(line).collect();
    let audit = board.audit(&mut RankingLines::new(source.as_bytes())).await.unwrap();
    assert_eq!((audit.rows, audit.differing), (250, 4));
    assert_eq!(board.rebuild_from("one", &mut RankingLines::new(source.as_bytes())).await.unwrap(), 3);
    assert_eq!(board.audit(&mut RankingLines::new(source.as_bytes())).await.unwrap().differing, 0);
    let top = board.rank(Standing::All, "s0").await.unwrap().unwrap();
    assert_eq!((top.entry.score, top.entry.rank, top.members), (84, 1, 3));
    let bad = "{\"member\": \"s1\", \"at\": 1}\n";
    let error = board.audit(&mut RankingLines::new(bad.as_bytes())).await.unwrap_err();
    assert!(error.to_string().starts_with("line 1:"), "{error}");
}
