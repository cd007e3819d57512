//! A Prometheus histogram, and the bucket bounds vLLM uses.

/// Counts of observations at or below each bound.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    /// An empty histogram; `bounds` ascend and leave out infinity.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], count: 0, sum: 0.0 }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        let from = self.bounds.partition_point(|bound| *bound < value);
        self.counts[from..].iter_mut().for_each(|count| *count += 1);
    }

    /// Bounds with the number of observations at or below them, infinity left out.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().copied().zip(self.counts.iter().copied())
    }

    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of observations.
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

/// Bucket bounds as recorded from vLLM 0.32.
pub(super) mod bounds {
    pub(in crate::metrics) const TOKENS: &[f64] =
        &[1., 2., 5., 10., 20., 50., 100., 200., 500., 1000., 2000., 5000., 10000.];
    pub(in crate::metrics) const ITERATION: &[f64] =
        &[1., 8., 16., 32., 64., 128., 256., 512., 1024., 2048., 4096., 8192., 16384.];
    pub(in crate::metrics) const SMALL_COUNT: &[f64] = &[1., 2., 5., 10., 20.];
    pub(in crate::metrics) const PREEMPTIONS: &[f64] = &[1., 2., 3., 4., 5., 10., 20.];
    pub(in crate::metrics) const FIRST_TOKEN: &[f64] = &[
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1., 2.5, 5., 7.5, 10., 20., 40., 80., 160.,
        640., 2560.,
    ];
    pub(in crate::metrics) const TOKEN_GAP: &[f64] =
        &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1., 2.5, 5., 7.5, 10., 20., 40., 80.];
    pub(in crate::metrics) const LATENCY: &[f64] =
        &[0.3, 0.5, 0.8, 1., 1.5, 2., 2.5, 5., 10., 15., 20., 30., 40., 50., 60., 120., 240., 480., 960., 1920., 7680.];
}
