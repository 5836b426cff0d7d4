//! The ratios as a bar chart, with a line at 1, the floor.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::result::BenchResult;
use crate::failure::Failure;

const WIDTH: i32 = 900;
const ROW: i32 = 28;
const TOP: i32 = 56;
const BOTTOM: i32 = 44;
const LEFT: i32 = 200;
const RIGHT: i32 = 80;
const BAR: RGBColor = RGBColor(47, 111, 159);
const TEXT: RGBColor = RGBColor(51, 51, 51);
const LINE: RGBColor = RGBColor(180, 60, 40);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the benchmarks that have a ratio.
pub fn ratios_svg(results: &[BenchResult]) -> Result<String, Failure> {
    let bars: Vec<(String, f64)> =
        results.iter().filter_map(|result| Some((label(result), result.floor_ratio?))).collect();
    let height = TOP + BOTTOM + ROW * bars.len() as i32;
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
    draw(&area, &bars, height)
        .map_err(|error| Failure::broken(format!("the plot cannot be drawn: {error}")))?;
    drop(area);
    Ok(svg)
}

fn label(result: &BenchResult) -> String {
    match result.name.as_str() {
        "core" => format!("core, {} groups", result.groups),
        name => name.to_owned(),
    }
}

fn draw(
    area: &Area<'_>,
    bars: &[(String, f64)],
    height: i32,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    area.fill(&WHITE)?;
    let most = bars.iter().map(|(_, ratio)| *ratio).fold(1.0, f64::max);
    let x = |ratio: f64| LEFT + (ratio / most * f64::from(WIDTH - LEFT - RIGHT)).round() as i32;
    write(
        area,
        "The floor's cost divided by the queue's; longer is better, 1 is the floor",
        (LEFT, 24),
        16,
        HPos::Left,
    )?;
    for (row, (name, ratio)) in bars.iter().enumerate() {
        let top = TOP + ROW * row as i32;
        let middle = top + ROW / 2;
        write(area, name, (LEFT - 10, middle), 14, HPos::Right)?;
        let corners = [(LEFT, top + 4), (x(*ratio), top + ROW - 4)];
        area.draw(&Rectangle::new(corners, BAR.filled()))?;
        write(area, &format!("{ratio:.2}"), (x(*ratio) + 6, middle), 14, HPos::Left)?;
    }
    let floor = [(x(1.0), TOP - 6), (x(1.0), height - BOTTOM + 6)];
    area.draw(&PathElement::new(floor, LINE.stroke_width(1)))?;
    write(area, "1", (x(1.0), height - BOTTOM + 18), 14, HPos::Center)?;
    area.present()
}

fn write(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    size: u32,
    side: HPos,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let style = ("sans-serif", size).into_font().color(&TEXT).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ratio_has_a_bar_with_its_name() {
        let result = |name: &str, floor_ratio| BenchResult {
            name: name.into(),
            floor_ratio,
            ..BenchResult::default()
        };
        let svg = ratios_svg(&[result("enqueue", Some(0.5)), result("drain", None)]).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("enqueue") && svg.contains("0.50"));
        assert!(!svg.contains("drain"));
    }
}
