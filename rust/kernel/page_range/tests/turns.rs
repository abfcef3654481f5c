// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of whom a thread that has the turn of a range holds up, and whom not. A pool with
//! one turn for all ranges fails them, and makes none of them hang.

use super::{
    super::{pool::PagePool, reclaim::Need, turns::First},
    Scene,
};
use crate::kernel_ext::expect::{ensure, ensure_eq, Failed};
use kernel::{
    prelude::*,
    sync::{
        atomic::{ordering, Atomic},
        Arc, Completion,
    },
    time::{delay::fsleep, Delta},
    workqueue,
};

/// What a thread of a work queue does meanwhile.
#[pin_data]
struct Meanwhile {
    /// What came of it; [`Self::RUNS`] before it has ended.
    result: Atomic<usize>,
    #[pin]
    ended: Completion,
}

impl Meanwhile {
    const RUNS: usize = usize::MAX;
    /// For longer than this, in milliseconds, nothing is waited for that is to come without help.
    const LONG: i64 = 5000;
    /// For as long as this, in milliseconds, it is observed that something does not come.
    const SHORT: i64 = 50;

    /// Starts `work`, of which nothing is left when it has ended.
    fn start(work: impl FnOnce() -> usize + Send + 'static) -> Result<Arc<Self>, Failed> {
        let result = Atomic::new(Self::RUNS);
        let this = pin_init!(Self { result, ended <- Completion::new() });
        let this = Arc::pin_init(this, GFP_KERNEL)?;
        let there = this.clone();
        workqueue::system_long().try_spawn(GFP_KERNEL, move || {
            there.result.store(work(), ordering::Relaxed);
            there.ended.complete_all();
        })?;
        Ok(this)
    }

    /// Returns whether it ends within so many milliseconds.
    fn ends_within(&self, milliseconds: i64) -> bool {
        for _ in 0..milliseconds {
            if self.result.load(ordering::Relaxed) != Self::RUNS {
                return true;
            }
            fsleep(Delta::from_millis(1));
        }
        false
    }

    /// Waits for its end, and returns the result.
    fn result(&self) -> usize {
        self.ended.wait_for_completion();
        self.result.load(ordering::Relaxed)
    }
}

/// Returns two ranges of one pool, in which 2 and 3 pages are present.
fn two_ranges() -> Result<(Scene, Scene), Failed> {
    let one = Scene::filled(2)?;
    let other = one.beside(3)?;
    Ok((one, other))
}

/// Asks for a page because an allocation cannot proceed. Returns how many are freed.
fn reclaim_urgently(pool: &PagePool) -> usize {
    let freed = pool.reclaim(&mut Scene::control(1), Need::Urgent);
    freed.unwrap_or(0)
}

/// Closes `range` in a thread of a work queue, while `busy` is. Returns whether that ends within so
/// many milliseconds, and how many pages are listed then.
fn close_while_busy(range: &Scene, busy: &Scene, within: i64) -> Result<(bool, usize), Failed> {
    let turn = busy.pool.wait_for_turn(busy.range.turn);
    let closed = range.range.clone();
    let end = Meanwhile::start(move || {
        closed.close();
        0
    })?;
    let outcome = (end.ends_within(within), busy.listed());
    drop(turn);
    end.result();
    Ok(outcome)
}

#[kunit_tests(page_range_turns)]
mod suite {
    use super::*;

    #[test]
    fn pages_of_a_busy_range_are_passed_over() -> Result<(), Failed> {
        let (busy, other) = two_ranges()?;
        let pool = &busy.pool;
        let turn = pool.wait_for_turn(busy.range.turn);
        ensure_eq!(other.reclaim(5), Some((5, 3)));
        ensure_eq!((other.present(), other.listed()), (0, 2));
        // Those that are busy are still listed, and none of them was asked for.
        let control = Scene::control(1);
        let first = pool.take_first(&control, |_| ());
        ensure!(matches!(first, First::Busy(number) if number == busy.range.turn));
        ensure_eq!(busy.reclaim(2), Some((2, 0)));
        ensure_eq!(busy.books.asked.load(ordering::Relaxed), 0);
        let fruitless = pool.fruitless(&control).load(ordering::Relaxed);
        ensure_eq!((fruitless, busy.listed()), (0, 2));
        ensure_eq!(busy.present(), 2);
        // Who cannot go on without memory finds pages of another range, and waits for no turn.
        other.fill(2)?;
        ensure_eq!(reclaim_urgently(pool), 2);
        drop(turn);
        ensure_eq!(busy.reclaim(2), Some((2, 2)));
        ensure_eq!(busy.listed(), 0);
        Ok(())
    }

    #[test]
    fn a_range_ends_while_another_is_busy() -> Result<(), Failed> {
        let (busy, other) = two_ranges()?;
        let closed = close_while_busy(&other, &busy, Meanwhile::LONG)?;
        ensure_eq!(closed, (true, 2));
        Ok(())
    }

    #[test]
    fn a_range_does_not_end_while_it_is_busy() -> Result<(), Failed> {
        let (other, busy) = two_ranges()?;
        let closed = close_while_busy(&busy, &busy, Meanwhile::SHORT)?;
        ensure_eq!((closed, other.listed()), ((false, 5), 2));
        Ok(())
    }

    #[test]
    fn a_page_that_leaves_is_waited_for_by_its_turn() -> Result<(), Failed> {
        let scene = Scene::filled(1)?;
        let (pool, range) = (scene.pool.clone(), scene.range.clone());
        // The range's turn, and the mark of a page that reclaim has begun to remove.
        let step = pool.take_first(&Scene::control(1), |taken| -> Result<_, Failed> {
            let space = range.space.open().ok_or(ENOENT)?;
            let slot = &space.mapping.as_ref().ok_or(ENOENT)?.slots[0];
            ensure!(slot.withdraw(&taken, || false));
            let there = range.clone();
            let end = Meanwhile::start(move || usize::from(there.populate_slow(0, 1).is_ok()))?;
            ensure!(!end.ends_within(Meanwhile::SHORT));
            // The page cannot be used while it leaves, and is on no list.
            ensure_eq!((scene.listed(), range.write(0, b"x")), (0, Err(EFAULT)));
            slot.restore();
            Ok(end)
        });
        let First::Taken(end) = step else {
            return Err(ENOENT.into());
        };
        ensure_eq!(end?.result(), 1);
        ensure_eq!((scene.present(), scene.listed()), (1, 1));
        Ok(())
    }

    #[test]
    fn lesson_s21_who_cannot_go_on_waits_for_the_only_range() -> Result<(), Failed> {
        let busy = Scene::filled(2)?;
        let turn = busy.pool.wait_for_turn(busy.range.turn);
        let pool = busy.pool.clone();
        let reclaim = Meanwhile::start(move || reclaim_urgently(&pool))?;
        let has_ended = reclaim.ends_within(Meanwhile::SHORT);
        drop(turn);
        ensure_eq!(reclaim.result(), 2);
        ensure!(!has_ended);
        ensure_eq!((busy.present(), busy.listed()), (0, 0));
        Ok(())
    }
}
