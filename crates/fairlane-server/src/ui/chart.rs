//! Charts as SVG, drawn on the server without scripts, and without style attributes, which the
//! content security policy forbids.

use std::fmt::Write;

use maud::{Markup, html};

use super::format::count;

/// The size of a chart in its own units; it is stretched to the width of the page.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;

/// A line of a chart.
pub(super) struct Line<'a> {
    /// The name in the legend.
    pub name: &'a str,
    /// The number of its colour.
    pub colour: u8,
    /// The values, oldest first. NaN marks a gap, which the line skips.
    pub values: Vec<f64>,
}

/// A chart of lines up to now, with a legend and the largest value. The width fits `at_most`
/// values, and `oldest` labels its left edge. Fewer values are aligned to the right, so that time
/// is always to scale.
pub(super) fn lines(
    label: &str,
    lines: &[Line<'_>],
    (at_most, oldest): (usize, &str),
    unit: impl Fn(f64) -> String,
) -> Markup {
    let scale = html! { div.scale { span { (oldest) } span { "now" } } };
    figure(label, lines, at_most, unit, scale)
}

fn figure(
    label: &str,
    lines: &[Line<'_>],
    at_most: usize,
    unit: impl Fn(f64) -> String,
    scale: Markup,
) -> Markup {
    let largest = lines.iter().flat_map(|line| &line.values).fold(0.0_f64, |most, value| most.max(*value));
    let latest = |line: &Line<'_>| match line.values.last() {
        Some(value) if !value.is_nan() => unit(*value),
        _ => "–".to_owned(),
    };
    html! {
        figure.chart {
            figcaption {
                strong { (label) }
                @for line in lines {
                    span.key { span class={ "dot colour-" (line.colour) } {} (line.name) " " b { (latest(line)) } }
                }
            }
            div.plot {
                span.most { (unit(largest)) }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                    aria-label=(label) {
                    @for (at, line) in lines.iter().enumerate() {
                        @let points = points(&line.values, at_most, largest);
                        @if at == 0 && line.values.len() > 1 && !line.values.iter().any(|value| value.is_nan()) {
                            path class={ "area colour-" (line.colour) } d=(area(&line.values, at_most, &points)) {}
                        }
                        polyline class={ "line colour-" (line.colour) } points=(points) {}
                    }
                }
            }
            (scale)
        }
    }
}

/// A chart as [`lines`] draws it, but without a time scale.
pub(super) fn plain(label: &str, lines: &[Line<'_>], unit: impl Fn(f64) -> String) -> Markup {
    let longest = lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
    figure(label, lines, longest, unit, html! {})
}

fn x(at: usize, of: usize, at_most: usize) -> f64 {
    let step = WIDTH / (at_most.max(2) - 1) as f64;
    WIDTH - (of - 1 - at) as f64 * step
}

fn points(values: &[f64], at_most: usize, largest: f64) -> String {
    let mut text = String::new();
    for (at, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let y = HEIGHT - 4.0 - value / largest.max(f64::MIN_POSITIVE) * (HEIGHT - 12.0);
        // Writing to a string does not fail.
        let _ = write!(text, "{:.1},{y:.1} ", x(at, values.len(), at_most));
    }
    text
}

fn area(values: &[f64], at_most: usize, points: &str) -> String {
    let first = x(0, values.len(), at_most);
    format!("M{first:.1},{HEIGHT} L{points} L{WIDTH},{HEIGHT} Z")
}

/// A layer of a stacked chart.
pub(super) struct Layer {
    /// The number of its colour among those of stacked charts.
    pub colour: usize,
    /// A value for each column, oldest first.
    pub values: Vec<u64>,
}

/// The columns of a stacked chart.
pub(super) struct Columns<'a> {
    /// Number of columns that fit; fewer are aligned to the right.
    pub room: usize,
    /// The label of the left edge.
    pub oldest: &'a str,
    /// The link of each column.
    pub links: &'a [String],
    /// The highlighted column.
    pub marked: Option<usize>,
}

/// A chart of stacked columns. Screen readers skip it, because its page has a table with the same
/// values.
pub(super) fn stacked(label: &str, layers: &[Layer], columns: &Columns<'_>) -> Markup {
    let sum = |at: usize| layers.iter().filter_map(|layer| layer.values.get(at)).sum::<u64>();
    let most = (0..columns.links.len()).map(sum).max().unwrap_or(0);
    let width = WIDTH / columns.room.max(1) as f64;
    let left = |at: usize| WIDTH - (columns.links.len() - at) as f64 * width;
    html! {
        figure.chart.stacked {
            figcaption { strong { (label) } span.key { "at most " b { (count(most)) } " in a column" } }
            div.plot {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                    @for (number, layer) in layers.iter().enumerate() {
                        path class={ "stack-" (layer.colour) } d=(pile(layers, number, most, width, left)) {}
                    }
                    @for (at, link) in columns.links.iter().enumerate() {
                        a href=(link) tabindex="-1" class=[(columns.marked == Some(at)).then_some("marked")] {
                            rect.column x=(format!("{:.1}", left(at))) y="0" width=(format!("{width:.1}")) height=(HEIGHT) { title { (count(sum(at))) } }
                        }
                    }
                }
            }
            div.scale { span { (columns.oldest) } span { "now" } }
        }
    }
}

/// The rectangles of one layer, each on top of the layers before it.
fn pile(layers: &[Layer], number: usize, most: u64, width: f64, left: impl Fn(usize) -> f64) -> String {
    let height = |value: u64| value as f64 / most.max(1) as f64 * (HEIGHT - 4.0);
    let mut path = String::new();
    for (at, value) in layers[number].values.iter().enumerate().filter(|(_, value)| **value > 0) {
        let below: u64 = layers[..number].iter().filter_map(|layer| layer.values.get(at)).sum();
        let (x, y, drawn, side) =
            (left(at) + 0.5, HEIGHT - height(below), height(*value), (width - 1.0).max(0.5));
        // Writing to a string does not fail.
        let _ = write!(path, "M{x:.1} {y:.1}h{side:.1}v-{drawn:.1}h-{side:.1}z");
    }
    path
}

/// A small line without axes.
pub(super) fn spark(label: &str, values: &[f64]) -> Markup {
    let largest = values.iter().fold(0.0_f64, |most, value| most.max(*value));
    let step = 80.0 / (values.len().max(2) - 1) as f64;
    let mut text = String::new();
    for (at, value) in values.iter().enumerate() {
        let y = 18.0 - value / largest.max(f64::MIN_POSITIVE) * 16.0;
        let _ = write!(text, "{:.1},{y:.1} ", at as f64 * step);
    }
    html! {
        svg.spark viewBox="0 0 80 20" role="img" aria-label=(label) {
            @if values.len() > 1 { polyline.line.colour-1 points=(text) {} }
        }
    }
}

/// The share that a group got, as a bar, and the share that it was due, as a mark.
pub(super) fn share(got: f64, due: f64) -> Markup {
    let scale = got.max(due).max(0.000_001);
    let (bar, mark) = (got / scale * 78.0, due / scale * 78.0);
    html! {
        svg.share viewBox="0 0 80 12" aria-hidden="true" {
            rect.track x="0" y="3" width="80" height="6" rx="3" {}
            rect.got x="0" y="3" width=(format!("{bar:.1}")) height="6" rx="3" {}
            rect.due x=(format!("{mark:.1}")) y="0" width="2" height="12" {}
        }
    }
}

/// A bar that is partly filled.
pub(super) fn progress(label: &str, part: u64, whole: u64) -> Markup {
    html! { progress aria-label=(label) value=(part) max=(whole.max(1)) {} }
}
