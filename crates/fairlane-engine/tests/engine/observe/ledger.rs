//! A recorder and a subscriber that store what they receive.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span;

/// Values by key, written `name{label=value,…}`; the value of a histogram is its sum, and its count
/// is at `… count`.
#[derive(Clone, Default)]
pub struct Ledger {
    values: Shared<BTreeMap<String, f64>>,
    /// Registered metrics: name, kind, labels.
    pub registered: Shared<Vec<(String, &'static str, Vec<String>)>>,
    /// Described metrics: name, kind and help.
    pub described: Shared<Vec<(String, &'static str, String)>>,
}

type Shared<T> = Arc<Mutex<T>>;

fn locked<T>(shared: &Shared<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no panic happens while it is locked")
}

impl Ledger {
    /// The value at a key; 0 without one.
    pub fn value(&self, key: &str) -> f64 {
        locked(&self.values).get(key).copied().unwrap_or(0.0)
    }

    fn entry(&self, kind: &'static str, key: &Key) -> Arc<Entry> {
        let names = key.labels().map(|label| label.key().to_owned()).collect();
        locked(&self.registered).push((key.name().to_owned(), kind, names));
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = if labels.is_empty() {
            key.name().into()
        } else {
            format!("{}{{{}}}", key.name(), labels.join(","))
        };
        Arc::new(Entry { name, values: self.values.clone() })
    }

    fn describe(&self, kind: &'static str, name: &KeyName, help: &SharedString) {
        locked(&self.described).push((name.as_str().to_owned(), kind, help.to_string()));
    }
}

struct Entry {
    name: String,
    values: Shared<BTreeMap<String, f64>>,
}

impl Entry {
    fn change(&self, suffix: &str, change: impl FnOnce(f64) -> f64) {
        let mut values = locked(&self.values);
        let value = values.entry(format!("{}{suffix}", self.name)).or_default();
        *value = change(*value);
    }
}

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        self.change("", |before| before + value as f64);
    }
    fn absolute(&self, value: u64) {
        self.change("", |_| value as f64);
    }
}

impl GaugeFn for Entry {
    fn increment(&self, value: f64) {
        self.change("", |before| before + value);
    }
    fn decrement(&self, value: f64) {
        self.change("", |before| before - value);
    }
    fn set(&self, value: f64) {
        self.change("", |_| value);
    }
}

impl HistogramFn for Entry {
    fn record(&self, value: f64) {
        self.change("", |before| before + value);
        self.change(" count", |before| before + 1.0);
    }
}

impl Recorder for Ledger {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe("counter", &name, &help);
    }
    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe("gauge", &name, &help);
    }
    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe("histogram", &name, &help);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry("counter", key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry("gauge", key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.entry("histogram", key))
    }
}

/// Every event as `LEVEL message field=value …`, in the order of arrival.
#[derive(Clone, Default)]
pub struct Journal(Shared<Vec<String>>);

impl Journal {
    /// The events so far.
    pub fn lines(&self) -> Vec<String> {
        locked(&self.0).clone()
    }

    /// Whether an event starts with `beginning` and has these fields.
    pub fn has(&self, beginning: &str, fields: &[&str]) -> bool {
        let fits =
            |line: &String| line.starts_with(beginning) && fields.iter().all(|field| line.contains(field));
        self.lines().iter().any(fits)
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.rest, " {name}={value:?}").expect("a text takes text"),
        }
    }
}

impl tracing::Subscriber for Journal {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == fairlane_engine::observe::TARGET
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        locked(&self.0).push(format!("{} {}{}", event.metadata().level(), fields.message, fields.rest));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
