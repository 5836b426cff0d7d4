//! Percentiles and medians of many measurements.

/// The smallest value that at least `per_mille` thousandths of the values do not exceed; `None`
/// without values.
pub fn percentile(values: &mut [u64], per_mille: usize) -> Option<u64> {
    let rank = (values.len() * per_mille).div_ceil(1000).max(1);
    (rank <= values.len()).then(|| *values.select_nth_unstable(rank - 1).1)
}

/// The middle value, or the mean of the two middle values; `None` without values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut values, 500), Some(50));
        assert_eq!(percentile(&mut values, 990), Some(99));
        assert_eq!(percentile(&mut values, 1000), Some(100));
        assert_eq!(percentile(&mut [7], 990), Some(7));
        assert_eq!(percentile(&mut [], 500), None);
    }

    #[test]
    fn one_outlier_does_not_move_a_median() {
        assert_eq!(median(vec![3.0, 1.0, 1e9]), Some(3.0));
        assert_eq!(median(vec![1.0, 2.0, 4.0, 1e9]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }
}
