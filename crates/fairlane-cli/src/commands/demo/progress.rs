//! Progress: one bar per customer on a terminal, a line every 2 s elsewhere, nothing with `--json`.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::ledger::Ledger;
use crate::output;
use crate::tables::thousands;

const BAR: &str = "{prefix:10} [{wide_bar}] {human_pos:>9} of {human_len:>9} {msg:12}";
/// ASCII characters, because the width of a bar is counted in bytes.
const BAR_CHARACTERS: &str = "=> ";
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// A task that shows the ledger until it is stopped.
pub struct Progress(Option<(oneshot::Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Starts the task.
    pub fn start(ledger: Arc<Ledger>, silent: bool) -> Self {
        if silent {
            return Self(None);
        }
        let (end, ended) = oneshot::channel();
        let showing = if std::io::stderr().is_terminal() {
            tokio::spawn(show_bars(ledger, ended))
        } else {
            tokio::spawn(show_lines(ledger, ended))
        };
        Self(Some((end, showing)))
    }

    /// Shows the last state and stops the task.
    pub async fn end(self) {
        let Some((end, showing)) = self.0 else { return };
        // Fails only if the task has already ended.
        let _ = end.send(());
        let _ = showing.await;
    }
}

async fn show_bars(ledger: Arc<Ledger>, mut ended: oneshot::Receiver<()>) {
    let style =
        ProgressStyle::with_template(BAR).expect("the template is valid").progress_chars(BAR_CHARACTERS);
    let all = MultiProgress::new();
    let bars: Vec<ProgressBar> = (0..ledger.customers())
        .map(|customer| {
            let bar = ProgressBar::new(ledger.size(customer) as u64).with_style(style.clone());
            all.add(bar.with_prefix(ledger.group(customer).to_string()))
        })
        .collect();
    loop {
        let over = tokio::time::timeout(BAR_EVERY, &mut ended).await.is_ok();
        for (customer, bar) in bars.iter().enumerate() {
            bar.set_message(status(&ledger, customer));
            bar.set_position(ledger.done(customer));
        }
        if over {
            bars.iter().for_each(ProgressBar::abandon);
            return;
        }
    }
}

fn status(ledger: &Ledger, customer: usize) -> &'static str {
    let size = ledger.size(customer) as u64;
    match (ledger.enqueued(customer), ledger.done(customer)) {
        (0, _) => "not arrived",
        (enqueued, _) if enqueued < size => "arriving",
        (_, done) if done < size => "",
        _ => "done",
    }
}

async fn show_lines(ledger: Arc<Ledger>, mut ended: oneshot::Receiver<()>) {
    while tokio::time::timeout(LINE_EVERY, &mut ended).await.is_err() {
        let parts = (0..ledger.customers()).map(|customer| {
            let done = thousands(ledger.done(customer));
            format!("{} {done} of {}", ledger.group(customer), thousands(ledger.size(customer) as u64))
        });
        output::print_message(&parts.collect::<Vec<_>>().join(", "));
    }
}
