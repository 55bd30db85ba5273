//! Corrections for multiple comparisons.

/// Holm's step-down adjusted p-values, in the given order. (Holm, "A simple sequentially rejective
/// multiple test procedure", 1979; `p.adjust(method = "holm")` in R.) If all that are <= alpha are
/// called significant, the chance of one false call among them is at most alpha.
///
/// A p-value that is NaN counts as 1; the others are clamped to [0, 1].
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let (clean, order) = sorted(p_values);
    let mut adjusted = vec![1.0; clean.len()];
    let mut running: f64 = 0.0;
    for (step, &i) in order.iter().enumerate() {
        let factor = (clean.len() - step) as f64;
        running = running.max((clean[i] * factor).min(1.0));
        adjusted[i] = running;
    }
    adjusted
}

/// Benjamini and Hochberg's step-up adjusted p-values, in the given order. ("Controlling the false
/// discovery rate", 1995; `p.adjust(method = "BH")` in R.) Among all that are <= alpha, the
/// expected share of false calls is at most alpha.
///
/// Never below the p-value itself and never above that of [`holm`].
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let (clean, order) = sorted(p_values);
    let mut adjusted = vec![1.0; clean.len()];
    let mut running: f64 = 1.0;
    for (step, &i) in order.iter().enumerate().rev() {
        let factor = clean.len() as f64 / (step + 1) as f64;
        running = running.min(clean[i] * factor);
        adjusted[i] = running;
    }
    adjusted
}

/// The p-values without NaN and clamped, and their indexes in ascending order.
fn sorted(p_values: &[f64]) -> (Vec<f64>, Vec<usize>) {
    let clean: Vec<f64> = p_values
        .iter()
        .map(|p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) })
        .collect();
    let mut order: Vec<usize> = (0..clean.len()).collect();
    order.sort_by(|&a, &b| clean[a].total_cmp(&clean[b]));
    (clean, order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_p_values_are_no_evidence() {
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[f64::NAN, 0.01, 7.0]), vec![1.0, 0.03, 1.0]);
        assert!(benjamini_hochberg(&[]).is_empty());
        assert_eq!(
            benjamini_hochberg(&[f64::NAN, 0.01, 7.0]),
            vec![1.0, 0.03, 1.0]
        );
    }
}
