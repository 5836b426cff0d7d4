//! Everything behind a PgBouncer in transaction mode.

use fairlane::{Context, Fairlane, Job, Outcome};
use fairlane_postgres::{Outbox, Relay, RelaySettings, enqueue_in};
use fairlane_testkit::postgres::{PgBouncer, PostgresServer};
use fairlane_testkit::wait::until_async;

#[tokio::test(flavor = "multi_thread")]
async fn producers_relays_and_mirrors_work_behind_pgbouncer_in_transaction_mode() {
    let postgres = PostgresServer::start();
    let bouncer = PgBouncer::start(&postgres);
    let outbox = Outbox::connect(&bouncer.url()).await.unwrap();
    outbox.migrate().await.unwrap();
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let settings = RelaySettings { listen_url: Some(postgres.url()), ..RelaySettings::default() };
    let relay = Relay::new(&outbox, &fairlane, settings);
    let running = tokio::spawn(async move { relay.run(std::future::pending()).await });
    let worker = fairlane.worker();
    let worker = worker.process("mail", |number: u32, _: Context| async move { Outcome::done(&number) });
    let pool = outbox.mirror(worker, &fairlane).start().unwrap();
    let producers: Vec<_> = (0..8)
        .map(|producer| {
            let outbox = outbox.clone();
            tokio::spawn(async move {
                for number in 0..25_u32 {
                    let mut transaction = outbox.begin().await.unwrap();
                    let job = Job::new(format!("g{producer}"), "mail", &number).id(number.to_string());
                    enqueue_in(&mut transaction, job).await.unwrap();
                    outbox.commit(transaction).await.unwrap();
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    until_async("all have ended", async || {
        postgres.sql("SELECT count(*) FROM fairlane_jobs WHERE status = 'SUCCEEDED'") == "200"
    })
    .await;
    until_async("the relay has committed", async || outbox.status().await.unwrap().rows == 0).await;
    pool.stop().await;
    running.abort();
}
