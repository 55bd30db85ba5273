//! Correction for asking many questions at once.

/// Holm's step-down adjusted p-values, in the order given (Holm, "A simple sequentially rejective
/// multiple test procedure", 1979; `p.adjust(method = "holm")` in R). All that are <= alpha may be
/// called significant with a chance of at most alpha of one false call among them.
///
/// A p-value that is not a number counts as 1; the others are held inside [0, 1].
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let clean: Vec<f64> = p_values
        .iter()
        .map(|p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) })
        .collect();
    let mut order: Vec<usize> = (0..clean.len()).collect();
    order.sort_by(|&a, &b| clean[a].total_cmp(&clean[b]));
    let mut adjusted = vec![1.0; clean.len()];
    let mut running: f64 = 0.0;
    for (step, &i) in order.iter().enumerate() {
        let factor = (clean.len() - step) as f64;
        running = running.max((clean[i] * factor).min(1.0));
        adjusted[i] = running;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::holm;

    #[test]
    fn bad_p_values_are_no_evidence() {
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[f64::NAN, 0.01, 7.0]), vec![1.0, 0.03, 1.0]);
    }
}
