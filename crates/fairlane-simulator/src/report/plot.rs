//! The chart: completions over time, a row of charts for each part, a column for each run, a line
//! for each group. Runs that are compared show percentages, from each group's first job on, so that
//! the wait of a small group is as visible as the work of a large one.
//!
//! Text stays text in the SVG, so that no font is needed here and the viewer's own is used.

use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::{GroupReport, PartReport, Series};
use crate::scenario::FIFO;

const WIDTH: u32 = 960;
/// The width of a chart beside others.
const COMPARED_WIDTH: u32 = 480;
const CHART_HEIGHT: u32 = 460;
/// Most lines of single groups; all other groups share one line.
const LINES_MAX: usize = 12;
/// Above this ratio between the most and the fewest jobs of a line the chart is logarithmic.
const LINEAR_RATIO_MAX: f64 = 100.0;
const FONT: &str = "sans-serif";
const REST_COLOUR: RGBColor = RGBColor(150, 150, 150);
const COLOURS: [RGBColor; LINES_MAX] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(23, 190, 207),
    RGBColor(188, 189, 34),
    RGBColor(0, 0, 128),
    RGBColor(0, 100, 80),
    RGBColor(64, 64, 64),
];

struct Line {
    label: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// Draws the completions of every group over time: the parts of a run one below the other, and the
/// runs of a comparison side by side.
pub fn plot_svg(runs: &[Vec<PartReport>]) -> String {
    let mut svg = String::new();
    let parts = runs.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let width = if runs.len() > 1 { COMPARED_WIDTH * runs.len() as u32 } else { WIDTH };
    {
        let size = (width, CHART_HEIGHT * parts as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&area, runs, parts).expect("drawing into a string does not fail");
    }
    svg
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw<'a>(area: &Area<'a>, runs: &[Vec<PartReport>], parts: usize) -> Result<(), Failure<'a>> {
    area.fill(&WHITE)?;
    let columns = runs.len().max(1);
    for (number, chart) in area.split_evenly((parts, columns)).iter().enumerate() {
        let run = runs.get(number % columns);
        match run.and_then(|run| run.get(number / columns)) {
            Some(report) if columns > 1 => draw_compared(chart, report)?,
            Some(report) => draw_part(chart, report, format!("{}: jobs done over time", report.title()))?,
            None => {}
        }
    }
    area.present()
}

/// Draws a linear chart, or a logarithmic one if a line with few jobs would be flat.
fn draw_part<'a>(area: &Area<'a>, report: &PartReport, title: String) -> Result<(), Failure<'a>> {
    let lines = lines(report);
    let ends = || lines.iter().filter_map(|line| line.points.last());
    let seconds_max = ends().map(|point| point.0).fold(1e-3, f64::max);
    let jobs_max = ends().map(|point| point.1).fold(1.0, f64::max);
    let jobs_min = ends().map(|point| point.1).fold(jobs_max, f64::min);
    let mut builder = ChartBuilder::on(area);
    builder.caption(title, (FONT, 24)).margin(12).x_label_area_size(52).y_label_area_size(100);
    let seconds = 0.0..seconds_max * 1.02;
    let legend = SeriesLabelPosition::MiddleRight;
    if jobs_max / jobs_min > LINEAR_RATIO_MAX {
        let chart = builder.build_cartesian_2d(seconds, (1.0..jobs_max * 1.5).log_scale())?;
        let style = ChartStyle { legend, seconds_max, jobs_least: 1.0 };
        return draw_chart(chart, "jobs done (logarithmic)", lines, style);
    }
    let chart = builder.build_cartesian_2d(seconds, 0.0..jobs_max * 1.05)?;
    draw_chart(chart, "jobs done", lines, ChartStyle { legend, seconds_max, jobs_least: 0.0 })
}

/// Draws how much of its own jobs each group has done, from the arrival of its first job on.
fn draw_compared<'a>(area: &Area<'a>, report: &PartReport) -> Result<(), Failure<'a>> {
    let seconds_max = report.last_done_ms().unwrap_or_default().max(1.0) / 1000.0;
    let mut builder = ChartBuilder::on(area);
    let title = match report.discipline {
        FIFO => format!("a plain queue ({FIFO})"),
        _ => format!("Fairlane ({})", report.rules()),
    };
    builder.caption(title, (FONT, 24)).margin(12).x_label_area_size(52).y_label_area_size(80);
    let chart = builder.build_cartesian_2d(0.0..seconds_max * 1.02, -3.0..105.0)?;
    let style = ChartStyle { legend: SeriesLabelPosition::UpperLeft, seconds_max, jobs_least: 0.0 };
    draw_chart(chart, "percent of its jobs done", percentages(report), style)
}

/// The position of the legend, the right end of the lines in seconds, and the least value that can
/// be drawn.
struct ChartStyle {
    legend: SeriesLabelPosition,
    seconds_max: f64,
    jobs_least: f64,
}

fn draw_chart<'a, 'b, Y>(
    mut chart: ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, Y>>,
    jobs_label: &str,
    lines: Vec<Line>,
    style: ChartStyle,
) -> Result<(), Failure<'a>>
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    'a: 'b,
{
    chart
        .configure_mesh()
        .x_desc("seconds of virtual time")
        .y_desc(jobs_label)
        .axis_desc_style((FONT, 18))
        .label_style((FONT, 16))
        .x_label_formatter(&|seconds| number(*seconds))
        .y_label_formatter(&|jobs| number(*jobs))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()?;
    for mut line in lines {
        let stroke = line.colour.stroke_width(2);
        let end = line.points.last().map(|point| (style.seconds_max, point.1));
        line.points.extend(end);
        let points = line.points.into_iter().map(|(seconds, jobs)| (seconds, jobs.max(style.jobs_least)));
        chart
            .draw_series(LineSeries::new(points, stroke))?
            .label(line.label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], stroke));
    }
    chart
        .configure_series_labels()
        .position(style.legend)
        .margin(12)
        .label_font((FONT, 16))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()
}

/// The groups with the most jobs, and one line for the rest.
fn lines(report: &PartReport) -> Vec<Line> {
    let mut groups: Vec<&GroupReport> = report.groups.iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.jobs));
    let rest = groups.split_off(groups.len().min(LINES_MAX));
    let mut lines: Vec<Line> = Vec::new();
    for (group, colour) in groups.into_iter().zip(COLOURS) {
        lines.push(Line { label: group.group.clone(), colour, points: points(&group.series) });
    }
    if !rest.is_empty() {
        let all = rest.iter().fold(Series::default(), |sum, group| sum.plus(&group.series));
        let label = format!("{} more together", rest.len());
        lines.push(Line { label, colour: REST_COLOUR, points: points(&all) });
    }
    lines
}

/// The same lines in percent of each group's jobs, beginning with the arrival of its first job.
fn percentages(report: &PartReport) -> Vec<Line> {
    let mut lines = lines(report);
    for line in &mut lines {
        let of = |group: &&GroupReport| group.group == line.label;
        let arrived_ms = report.groups.iter().find(of).and_then(|group| group.first_arrival_ms);
        let all = line.points.last().map_or(1.0, |point| point.1).max(1.0);
        let done = line.points.iter().map(|(seconds, jobs)| (*seconds, jobs / all * 100.0));
        let arrival = arrived_ms.map(|milliseconds| (milliseconds / 1000.0, 0.0));
        line.points = arrival.into_iter().chain(done).collect();
    }
    lines
}

fn points(series: &Series) -> Vec<(f64, f64)> {
    series.cumulative().into_iter().map(|(seconds, jobs)| (seconds, jobs as f64)).collect()
}

/// Formats a number as `1,000,000`, or with one decimal if it is small and not whole.
fn number(value: f64) -> String {
    if value.fract().abs() > 1e-9 && value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
