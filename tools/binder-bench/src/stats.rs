// SPDX-License-Identifier: GPL-2.0
//! From samples to numbers that one may compare: summaries, merged histograms, and the interval of a ratio.

use hdrhistogram::Histogram;

use crate::result::{Block, Latency};

/// Fewer boots than this do not show the difference between boots.
pub const MIN_BOOTS: usize = 3;

/// The number of resamples of the bootstrap. 2000 keep the ends of a 95 % interval steady to a digit; tests need less.
const RESAMPLES: usize = if cfg!(test) { 200 } else { 2000 };

/// Any fixed number: the same files give the same table.
const SEED: u64 = 0x0b1d_e75e_ed00_0001;

/// Three significant digits: finer than anything a machine repeats.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new(3).expect("the crate accepts a precision of 3")
}

/// Sums up the samples of one block, each the average of `batch` units; `None` when there are none.
pub fn summarise(samples_ns: &[u64], batch: u32, wall_ns: f64, all: &mut Histogram<u64>) -> Option<Block> {
    let mut own = new_histogram();
    for &ns in samples_ns {
        own += ns;
    }
    *all += &own;
    (!own.is_empty()).then(|| Block {
        calls: own.len() * u64::from(batch),
        wall_ns,
        mean_ns: samples_ns.iter().sum::<u64>() as f64 / samples_ns.len() as f64,
        p50_ns: own.value_at_quantile(0.5) as f64,
        max_ns: samples_ns.iter().copied().max().unwrap_or(0) as f64,
    })
}

/// The slope of the straight line that lies closest to some points, and its standard error; none without two places.
pub fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (across, up) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - across).powi(2)).sum();
    if spread.is_nan() || spread <= 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - across) * (p.1 - up)).sum::<f64>() / spread;
    let left: f64 = points.iter().map(|p| (p.1 - up - slope * (p.0 - across)).powi(2)).sum();
    Some((slope, (left / (count - 2.0).max(1.0) / spread).sqrt()))
}

/// The pairs that a result file holds.
pub fn to_pairs(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
}

/// Adds the pairs of a result file.
pub fn add_pairs(histogram: &mut Histogram<u64>, pairs: &[(u64, u64)]) {
    for &(value, count) in pairs {
        histogram.record_n(value, count).expect("histograms of this module grow");
    }
}

/// The medians of the blocks of one boot.
pub type Boot = Vec<f64>;

pub fn medians(boots: &[&Latency]) -> Vec<Boot> {
    boots
        .iter()
        .map(|boot| boot.blocks.iter().map(|block| block.p50_ns).collect::<Boot>())
        .filter(|boot| !boot.is_empty())
        .collect()
}

/// The figure of many blocks: an interrupted block does not move it, and neither does a single interrupted call.
pub fn median(mut blocks: Vec<f64>) -> f64 {
    blocks.sort_by(f64::total_cmp);
    (blocks[(blocks.len() - 1) / 2] + blocks[blocks.len() / 2]) / 2.0
}

/// A ratio and the 95 % interval around it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ratio {
    pub point: f64,
    pub low: f64,
    pub high: f64,
    /// Boots behind it, of the driver that has fewer.
    pub boots: usize,
}

impl Ratio {
    /// Returns true if the files show that one side is faster: enough boots, and an interval without 1.
    pub fn decides(&self) -> bool {
        self.boots >= MIN_BOOTS && (self.high < 1.0 || self.low > 1.0)
    }
}

/// The figure of a driver: the average over its boots of what stands for the blocks of each.
fn summary(boots: &[Boot]) -> f64 {
    boots.iter().map(|boot| median(boot.clone())).sum::<f64>() / boots.len() as f64
}

/// One world that might as well have been seen: boots drawn with replacement, then blocks of each.
///
/// Blocks of one boot resemble each other more than blocks of different boots, hence the two steps. One boot less
/// than there are is drawn: with few boots, drawing all would make them look more alike than boots are.
fn resample(boots: &[Boot], rng: &mut fastrand::Rng) -> f64 {
    let mut drawn: Vec<Boot> = Vec::with_capacity(boots.len());
    for _ in 0..(boots.len() - 1).max(1) {
        let boot = &boots[rng.usize(..boots.len())];
        drawn.push((0..boot.len()).map(|_| boot[rng.usize(..boot.len())]).collect());
    }
    summary(&drawn)
}

/// The ratio of two sets of boots, with the percentile interval of a two-level bootstrap.
pub fn ratio(subject: &[Boot], base: &[Boot]) -> Option<Ratio> {
    if subject.is_empty() || base.is_empty() {
        return None;
    }
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut draw = || resample(subject, &mut rng) / resample(base, &mut rng);
    let mut seen: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    seen.sort_by(f64::total_cmp);
    Some(Ratio {
        point: summary(subject) / summary(base),
        low: seen[RESAMPLES / 40],
        high: seen[RESAMPLES - 1 - RESAMPLES / 40],
        boots: subject.len().min(base.len()),
    })
}

/// The middle of many ratios, and the 95 % interval around it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Middle {
    pub point: f64,
    pub low: f64,
    pub high: f64,
}

/// The ratio of `subject` to `base`, from each two neighbouring blocks; none if there are fewer than two. A disturbance
/// of more than two blocks is in both.
///
/// The interval is that of the median by order statistics: which of the sorted ratios bound it depends on their number alone.
pub fn paired(base: &[Block], subject: &[Block], figure: fn(&Block) -> f64) -> Option<Middle> {
    let mut ratios: Vec<f64> = base.iter().zip(subject).map(|(a, b)| figure(b) / figure(a)).collect();
    if ratios.len() < 2 {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len() as f64;
    // The number of ratios below the true median is binomial: 1.96 standard deviations to either side.
    let low = (count / 2.0 - 0.98 * count.sqrt()).floor().max(0.0) as usize;
    let high = ratios[ratios.len() - 1 - low];
    Some(Middle { low: ratios[low], high, point: median(ratios) })
}

/// The mean of all but the highest quarter.
///
/// For costs that have few values each time, in whatever mixture, but for disturbances, which only add and spare most of
/// them. (A quantile jumps from one value to the next when the mixture changes a little.)
pub fn undisturbed_mean(values: &[u64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let lower = &sorted[..sorted.len() - sorted.len() / 4];
    (!lower.is_empty()).then(|| lower.iter().sum::<u64>() as f64 / lower.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(level: f64, boots: usize, rng: &mut fastrand::Rng) -> Vec<Boot> {
        (0..boots)
            .map(|_| {
                let shift = 1.0 + (rng.f64() - 0.5) * 0.02;
                (0..20).map(|_| level * shift * (1.0 + (rng.f64() - 0.5) * 0.05)).collect()
            })
            .collect()
    }

    #[test]
    fn a_line_has_a_slope_and_says_how_sure_it_is() {
        assert_eq!(line(&[(0.0, 5.0), (1.0, 7.0), (2.0, 9.0)]), Some((2.0, 0.0)));
        // Residuals 0.5, -1, 0.5 over a spread of 2.
        let (slope, error) = line(&[(0.0, 0.5), (1.0, 0.0), (2.0, 2.5)]).unwrap();
        assert!((slope - 1.0).abs() < 1e-12 && (error - 0.75f64.sqrt()).abs() < 1e-12, "{slope} {error}");
        assert_eq!(line(&[]), None);
        assert_eq!(line(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }

    #[test]
    fn a_block_is_summed_up_exactly_where_it_must_be() {
        let mut all = new_histogram();
        let samples: Vec<u64> = (1..=1000).collect();
        let block = summarise(&samples, 2, 5.0, &mut all).unwrap();
        assert_eq!((block.calls, block.mean_ns, block.p50_ns, block.max_ns), (2000, 500.5, 500.0, 1000.0));
        assert_eq!(all.len(), 1000);
        assert!(summarise(&[], 1, 0.0, &mut all).is_none());
    }

    #[test]
    fn a_clear_difference_is_named() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (subject, base) = (noisy(9.0, 4, &mut rng), noisy(10.0, 4, &mut rng));
        let r = ratio(&subject, &base).unwrap();
        assert!(r.low < 0.9 && 0.9 < r.high && r.high - r.low < 0.06 && r.decides(), "{r:?}");
        assert_eq!(ratio(&subject, &base), Some(r), "the same input gives the same interval");
    }

    #[test]
    fn no_winner_without_a_difference_or_without_boots() {
        let mut rng = fastrand::Rng::with_seed(2);
        let same = ratio(&noisy(10.0, 4, &mut rng), &noisy(10.0, 4, &mut rng)).unwrap();
        assert!(same.low < 1.0 && same.high > 1.0 && !same.decides(), "{same:?}");
        let few = ratio(&noisy(5.0, 2, &mut rng), &noisy(10.0, 2, &mut rng)).unwrap();
        assert!(few.high < 1.0 && !few.decides(), "two boots decide nothing: {few:?}");
        assert!(ratio(&[], &noisy(1.0, 3, &mut rng)).is_none());
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let mut rng = fastrand::Rng::with_seed(3);
        let covered = (0..50)
            .filter(|_| {
                let r = ratio(&noisy(9.5, 6, &mut rng), &noisy(10.0, 6, &mut rng)).unwrap();
                r.low <= 0.95 && 0.95 <= r.high
            })
            .count();
        assert!((43..=50).contains(&covered), "{covered} of 50");
    }

    #[test]
    fn an_interrupted_block_does_not_move_the_ratio() {
        let calm: Vec<Boot> = vec![vec![10.0; 9]; 3];
        let mut disturbed = calm.clone();
        disturbed[1][4] = 1000.0;
        assert_eq!(ratio(&disturbed, &calm).unwrap().point, 1.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    fn blocks(means: &[f64]) -> Vec<Block> {
        means.iter().map(|&mean_ns| Block { mean_ns, ..Default::default() }).collect()
    }

    #[test]
    fn neighbours_share_what_the_machine_does() {
        let mut rng = fastrand::Rng::with_seed(5);
        // A machine that is up to three times as slow for a while, and noise of 4 % in each block.
        let pace: Vec<f64> = (0..1200).map(|round: u32| 20.0 + f64::from(round / 100 % 3) * 20.0).collect();
        let mut noisy = |level: f64| -> Vec<Block> {
            blocks(&pace.iter().map(|pace| pace * level * (0.98 + rng.f64() * 0.04)).collect::<Vec<_>>())
        };
        let (base, subject) = (noisy(1.0), noisy(0.9));
        let found = paired(&base, &subject, |block| block.mean_ns).unwrap();
        assert!(found.low <= 0.9 && 0.9 <= found.high && found.high - found.low < 0.01, "{found:?}");
        let same = paired(&base, &noisy(1.0), |block| block.mean_ns).unwrap();
        assert!(same.low <= 1.0 && 1.0 <= same.high, "{same:?}");
        assert!(paired(&base[..1], &subject, |block| block.mean_ns).is_none());
        let two = paired(&blocks(&[1.0, 1.0]), &blocks(&[2.0, 4.0]), |block| block.mean_ns).unwrap();
        assert_eq!((two.low, two.point, two.high), (2.0, 3.0, 4.0));
    }

    #[test]
    fn the_interval_of_pairs_covers_the_truth_about_as_often_as_it_says() {
        let mut rng = fastrand::Rng::with_seed(6);
        let covered = (0..300)
            .filter(|_| {
                let mut noisy = |level: f64| {
                    blocks(&(0..60).map(|_| level * (0.9 + rng.f64() * 0.2)).collect::<Vec<_>>())
                };
                let found = paired(&noisy(1.0), &noisy(0.95), |block| block.mean_ns).unwrap();
                found.low <= 0.95 && 0.95 <= found.high
            })
            .count();
        assert!((276..=300).contains(&covered), "{covered} of 300");
    }

    #[test]
    fn the_undisturbed_mean_ignores_ticks_and_weighs_the_mixture() {
        assert_eq!(undisturbed_mean(&[5, 900, 5, 8, 5, 5, 8, 900]), Some(6.0));
        assert_eq!(undisturbed_mean(&[7]), Some(7.0));
        assert_eq!(undisturbed_mean(&[]), None);
    }
}
