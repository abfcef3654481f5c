// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of page ranges, with real pages, a real list and real mappings in an address space
//! of the test's own. The tests set the answers of the owner, and call count and scan of the
//! shrinker themselves.

use super::{
    pool::PagePool,
    slots::{Found, HeldPage, Slot},
    Owner, PageEvent, PageRange, Use,
};
use crate::kernel_ext::expect::{ensure, ensure_eq, Failed};
use core::{ops::Range, ptr::null_mut};
use kernel::{
    bindings,
    error::to_result,
    mm::{virt::VmaNew, MmWithUser},
    new_spinlock,
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::{atomic::ordering, Arc, SpinLock},
    uaccess::{UserPtr, UserSlice},
};

// From <asm-generic/mman-common.h> and <linux/mman.h>, for all architectures that are supported
// here.
const READ: usize = 1;
const WRITE: usize = 2;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;

/// What is done with a range. Returns whether it succeeds.
type Act = fn(&PageRange) -> bool;

/// Which pages an owner returns to be in use, and which of them reclaim has visited.
#[derive(Default)]
struct Books {
    /// A bit for each page in use; the same for every 64th.
    used: u64,
    /// How many more questions are answered as if the page had been used lately.
    chances: u32,
    /// The page that was visited last.
    asked_for: usize,
    /// How often a page was asked for.
    asked: u32,
    /// The round of the last question.
    round: u32,
    /// What is done, once, at an event.
    meanwhile: Option<(PageEvent, Arc<PageRange>, Act)>,
    /// True if that was done, with success.
    is_done: bool,
}

impl Owner for SpinLock<Books> {
    fn ask(&self, bytes: Range<usize>, round: u32, act: &mut dyn FnMut(Use)) {
        let mut books = self.lock();
        let page = bytes.start >> PAGE_SHIFT;
        (books.asked_for, books.round) = (page, round);
        books.asked += 1;
        let chances = books.chances;
        books.chances = chances.saturating_sub(1);
        act(match chances {
            _ if books.used >> (page % 64) & 1 == 1 => Use::Used,
            0 => Use::Idle,
            _ => Use::UsedLately,
        });
    }

    fn observe(&self, event: PageEvent, _index: usize) {
        let meanwhile = self.lock().meanwhile.take_if(|(at, _, _)| *at == event);
        if let Some((_, range, act)) = meanwhile {
            let is_done = act(&range);
            self.lock().is_done = is_done;
        }
    }
}

/// A pool, one range of it, and its mapping.
struct Scene {
    /// Dropped first: that closes the mapping of the range.
    mapped: Mapped,
    range: Arc<PageRange>,
    books: Arc<SpinLock<Books>>,
    pool: Arc<PagePool>,
}

impl Scene {
    /// Creates a range in this pool with a mapping of `pages` pages, in the address space of the
    /// test's thread.
    fn make(pool: Arc<PagePool>, pages: usize) -> Result<Self, Failed> {
        // SAFETY: This is a thread of KUnit's, which drops the address space when it ends.
        to_result(unsafe { bindings::kunit_attach_mm() })?;
        let books = Arc::pin_init(new_spinlock!(Books::default()), GFP_KERNEL)?;
        let task = kernel::current!();
        let mm = task.mm().ok_or(ESRCH)?;
        let range = PageRange::new(mm, pool.clone(), books.clone());
        let range = Arc::pin_init(range, GFP_KERNEL)?;
        Ok(Self {
            mapped: Mapped::of_range(&range, pages)?,
            range,
            books,
            pool,
        })
    }

    /// Creates a range with a mapping of `pages` pages, in a pool of its own.
    fn mapped(pages: usize) -> Result<Self, Failed> {
        Self::make(PagePool::new(c"page-range-test", false)?, pages)
    }

    /// As [`mapped`](Self::mapped), with all pages present and listed.
    fn filled(pages: usize) -> Result<Self, Failed> {
        let scene = Self::mapped(pages)?;
        scene.fill(pages)?;
        Ok(scene)
    }

    /// As [`filled`](Self::filled), in the pool of this scene.
    fn beside(&self, pages: usize) -> Result<Self, Failed> {
        let scene = Self::make(self.pool.clone(), pages)?;
        scene.fill(pages)?;
        Ok(scene)
    }

    /// Makes the first so many pages present, and listed, as after their first use.
    fn fill(&self, pages: usize) -> Result {
        self.range.populate(0, pages << PAGE_SHIFT)?;
        self.range.release(0..pages);
        Ok(())
    }

    /// Returns how many pages are present, how many are on the pool's list, and how many are before
    /// the frontier.
    fn state(&self) -> (usize, usize, isize) {
        let filled = |slots: &[Slot]| slots.iter().filter(|slot| slot.is_filled()).count();
        let present = self.range.with_slots(|_, slots| filled(slots));
        let listed = self.pool.count(&Self::control(0));
        let frontier = self.range.frontier.load(ordering::Relaxed) >> PAGE_SHIFT;
        (present.unwrap_or(0), listed, frontier)
    }

    /// Returns the control of a shrinker call: all nodes' pages that are charged to no cgroup.
    fn control(how_many: usize) -> bindings::shrink_control {
        bindings::shrink_control {
            gfp_mask: bindings::GFP_KERNEL,
            nr_to_scan: how_many,
            ..pin_init::zeroed()
        }
    }

    /// Lets reclaim visit `how_many` pages. Returns how many it visited, and how many it freed.
    fn reclaim(&self, how_many: usize) -> Option<(usize, usize)> {
        reclaim(&self.pool, how_many, false)
    }

    /// The same for an allocation that cannot proceed without memory.
    fn reclaim_urgently(&self, how_many: usize) -> Option<(usize, usize)> {
        reclaim(&self.pool, how_many, true)
    }
}

fn reclaim(pool: &PagePool, how_many: usize, is_urgent: bool) -> Option<(usize, usize)> {
    let mut control = Scene::control(how_many);
    let freed = pool.reclaim(&mut control, is_urgent)?;
    Some((control.nr_scanned, freed))
}

/// A mapping in the test's address space. Unmapped when dropped.
struct Mapped {
    address: usize,
    len: usize,
}

impl Mapped {
    /// Makes a mapping of a range: of anonymous memory, before it is accessed.
    fn of_range(range: &Arc<PageRange>, pages: usize) -> Result<Self> {
        let mapped = Self::map(pages, READ)?;
        let task = kernel::current!();
        let lock = task.mm().ok_or(ESRCH)?.mmap_read_lock();
        let vma = lock.vma_lookup(mapped.address).ok_or(ENOENT)?;
        // SAFETY: No other thread has this address space, so none finds the VMA before it is a
        // mapping of the range.
        range.register(unsafe { VmaNew::from_raw(vma.as_ptr()) }, usize::MAX)?;
        drop(lock);
        Ok(mapped)
    }

    /// Maps anonymous memory.
    fn map(pages: usize, rights: usize) -> Result<Self> {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS;
        let len = pages << PAGE_SHIFT;
        // SAFETY: The address space is the test's own, and nothing in it is used except through
        // functions that copy from and to user space.
        let address = unsafe { bindings::vm_mmap(null_mut(), 0, len, rights, flags, 0) };
        // CAST: Errors are the last 4095 numbers.
        match address as isize {
            error @ -4095..0 => Err(Error::from_errno(error as i32)),
            _ => Ok(Self { address, len }),
        }
    }

    /// Unmaps the bytes `part` of it.
    fn unmap(&self, part: Range<usize>) -> Result {
        // SAFETY: The test's own address space; see `map`.
        to_result(unsafe { bindings::vm_munmap(self.address + part.start, part.len()) })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // A part that is not mapped any more need not be unmapped.
        let _ = self.unmap(0..self.len);
    }
}

/// Reads the test's address space. `EFAULT` where a process would get a signal.
fn seen<const N: usize>(address: usize) -> Result<[u8; N]> {
    let mut bytes = [0xee; N];
    UserSlice::new(UserPtr::from_addr(address), N)
        .reader()
        .read_slice(&mut bytes)?;
    Ok(bytes)
}

/// Writes to the test's address space.
fn put(address: usize, bytes: &[u8]) -> Result {
    UserSlice::new(UserPtr::from_addr(address), bytes.len())
        .writer()
        .write_slice(bytes)
}

/// Puts a page into a slot, as a thread that is preempted before it maps the page.
fn place_unmapped(range: &PageRange, mm: &MmWithUser, index: usize) -> Result<HeldPage, Failed> {
    match range.place(index, Some(range.allocate(mm, index)?))? {
        Found::Unmapped(page) => Ok(page),
        _ => Err(ENOENT.into()),
    }
}

/// Needs page 0, as a sender does whose frontier is below it.
fn use_page(range: &PageRange) -> bool {
    range.populate_slow(0, 1).is_ok() && range.write(0, b"used").is_ok()
}

/// Reclaims as if nothing had begun. Page 1 is idle, but the space is open.
fn reclaim_beside(range: &PageRange) -> bool {
    reclaim(&range.pool, 1, false) == Some((1, 0)) && range.has_page(1)
}

fn close(range: &PageRange) -> bool {
    range.close();
    // The pages stay until reclaim does not use the space any more.
    range.pool.count(&Scene::control(0)) == 1
}

#[kunit_tests(page_range)]
mod suite {
    use super::*;

    #[test]
    fn pages_appear_and_hold_what_is_written_where_they_were_asked_for() -> Result<(), Failed> {
        let scene = Scene::mapped(8)?;
        let range = &scene.range;
        for ((start, end), result, state) in [
            ((3, 5), Ok(()), (2, 0, 0)),
            // Pages that are present are not made again.
            ((0, 4), Ok(()), (5, 0, 5)),
            ((0, 9), Err(EFAULT), (5, 0, 5)),
            ((7, 6), Err(EFAULT), (5, 0, 5)),
        ] {
            let populated = range.populate(start * PAGE_SIZE, end * PAGE_SIZE);
            ensure_eq!((populated, scene.state()), (result, state));
        }
        ensure_eq!(range.populate(0, usize::MAX), Err(EFAULT));
        ensure_eq!(seen::<1>(scene.mapped.address + 5 * PAGE_SIZE), Err(EFAULT));

        let edge = PAGE_SIZE - 3;
        range.write(edge, b"border")?;
        ensure_eq!(seen(scene.mapped.address + edge), Ok(*b"border"));
        range.zero(edge + 1, 4)?;
        ensure_eq!(seen(scene.mapped.address + edge), Ok(*b"b\0\0\0\0r"));
        for beyond in [5 * PAGE_SIZE - 2, 8 * PAGE_SIZE - 2, usize::MAX] {
            ensure_eq!(range.write(beyond, b"end"), Err(EFAULT));
        }

        // Three pages, of which the second was never accessed.
        let source = Mapped::map(3, READ | WRITE)?;
        put(source.address + PAGE_SIZE - 4, b"left")?;
        put(source.address + 2 * PAGE_SIZE, b"right")?;
        let from = UserPtr::from_addr(source.address + PAGE_SIZE - 4);
        ensure_eq!(range.copy_from_user(0, from, PAGE_SIZE + 9), Ok(()));
        ensure_eq!(seen(scene.mapped.address), Ok(*b"left\0\0\0\0"));
        ensure_eq!(seen(scene.mapped.address + PAGE_SIZE + 4), Ok(*b"right"));
        source.unmap(PAGE_SIZE..2 * PAGE_SIZE)?;
        let kernel = UserPtr::from_addr(usize::MAX - PAGE_SIZE);
        for absent in [from, kernel] {
            ensure_eq!(range.copy_from_user(0, absent, 5), Err(EFAULT));
        }
        Ok(())
    }

    #[test]
    fn a_page_in_use_is_asked_for_once() -> Result<(), Failed> {
        let scene = Scene::mapped(800)?;
        let range = &scene.range;
        // Pages whose first use has not ended are never asked for.
        range.populate(0, 800 * PAGE_SIZE)?;
        ensure_eq!(
            (range.has_unlisted(), scene.reclaim_urgently(4)),
            (true, None)
        );
        // Released again, they are on the list once.
        for _ in 0..2 {
            range.release(0..800);
            ensure_eq!((scene.state().1, range.has_unlisted()), (800, false));
        }
        // If they are used again, each is asked for once, and is listed when that use ends. Pages
        // in use end a call, but as many as are asked for are looked at in any case.
        scene.books.lock().used = u64::MAX;
        ensure_eq!(scene.reclaim_urgently(1), Some((512, 0)));
        ensure_eq!((scene.state().1, range.has_unlisted()), (288, true));
        range.release(0..512);
        ensure_eq!(scene.reclaim_urgently(800), Some((800, 0)));
        ensure_eq!(scene.reclaim_urgently(4), None);
        ensure_eq!(range.write(0, b"x"), Ok(()));
        scene.books.lock().used = 0;
        // Pages beyond the end are not released.
        for (pages, listed, unlisted) in [(1..3, 2, true), (0..801, 0, true), (0..800, 798, false)]
        {
            range.release(pages);
            ensure_eq!((scene.state().1, range.has_unlisted()), (listed, unlisted));
            let freed = (listed > 0).then_some((listed, listed));
            ensure_eq!(scene.reclaim(800), freed);
        }
        Ok(())
    }

    /// A thread that is preempted when it has put a page into its slot holds up no other.
    #[test]
    fn a_page_is_mapped_by_whoever_finds_it() -> Result<(), Failed> {
        let scene = Scene::mapped(2)?;
        let range = &scene.range;
        let (mm, _) = range.missing(0, 1)?.ok_or(ENOENT)?;
        for index in [0, 1] {
            let page = place_unmapped(range, &mm, index)?;
            let start = index * PAGE_SIZE;
            ensure!(!range.has_page(index));
            ensure_eq!(range.write(start, b"x"), Err(EFAULT));
            // Or when it has mapped the page.
            if index == 1 {
                range.insert_page(&mm, scene.mapped.address + PAGE_SIZE, &page)?;
            }
            ensure_eq!(range.populate(start, start + 1), Ok(()));
            range.write(start, b"seen")?;
            ensure_eq!(seen(scene.mapped.address + start), Ok(*b"seen"));
            // The later steps of that thread have no effect.
            ensure_eq!(range.map(&mm, index, &page), Ok(()));
            let late = range.place(index, Some(range.allocate(&mm, index)?))?;
            ensure!(matches!(late, Found::Present));
            ensure_eq!(seen(scene.mapped.address + start), Ok(*b"seen"));
        }
        range.release(0..2);
        ensure_eq!(scene.state(), (2, 2, 2));
        ensure_eq!(scene.reclaim(2), Some((2, 2)));
        // If that thread gives up, the page can be used, or removed.
        for freed in [0, 1] {
            place_unmapped(range, &mm, 0)?;
            range.release(0..1);
            ensure_eq!(
                (scene.state(), range.write(0, b"x")),
                ((0, 1, 0), Err(EFAULT))
            );
            if freed == 0 {
                ensure!(use_page(range));
                ensure_eq!(seen(scene.mapped.address), Ok(*b"used"));
            }
            ensure_eq!(scene.reclaim(1), Some((1, 1)));
        }
        Ok(())
    }

    #[test]
    fn pages_are_asked_for_in_turn_and_rounds_are_told_apart() -> Result<(), Failed> {
        let scene = Scene::mapped(3)?;
        scene.books.lock().chances = u32::MAX;
        for page in [2, 0, 1] {
            let start = page * PAGE_SIZE;
            scene.range.populate(start, start + 1)?;
            scene.range.release(page..page + 1);
        }
        let round = || scene.books.lock().round;
        let mut last = super::super::FIRST_ROUND;
        for _ in 0..2 {
            for page in [2, 0, 1] {
                ensure_eq!(scene.reclaim(1), Some((1, 0)));
                ensure_eq!(scene.books.lock().asked_for, page);
                ensure_eq!(round() == last, page != 2);
                last = round();
            }
        }
        // Each is asked for once, however many are wanted.
        ensure_eq!(scene.reclaim(100), Some((3, 0)));
        ensure_eq!(scene.books.lock().asked, 9);
        Ok(())
    }

    #[test]
    fn reclaim_waits_for_no_reader() -> Result<(), Failed> {
        let scene = Scene::filled(2)?;
        let other = scene.beside(3)?;
        {
            let _reads = scene.range.space.open();
            // Pages of other ranges go.
            ensure_eq!(scene.reclaim(5), Some((5, 3)));
            ensure_eq!(scene.books.lock().asked, 2);
            ensure_eq!((scene.state(), other.state().0), ((2, 2, 2), 0));
            // Asking for them was not fruitless. If memory is needed, that is done in two rounds,
            // and again when others had the time to stop.
            ensure_eq!(scene.pool.fruitless.load(ordering::Relaxed), 0);
            ensure_eq!(scene.reclaim_urgently(1), Some((8, 0)));
        }
        scene.range.populate(0, 2 * PAGE_SIZE)?;
        ensure_eq!(scene.state(), (2, 2, 2));
        // Nor of readers of a mapping of which a part has gone, and with it all of it.
        scene.mapped.unmap(0..PAGE_SIZE)?;
        ensure_eq!(scene.range.populate(0, 1), Err(ESRCH));
        let reads = scene.range.space.open();
        ensure_eq!(scene.reclaim(2), Some((2, 0)));
        drop(reads);
        ensure_eq!(scene.reclaim(2), Some((2, 2)));
        // However many pages there are, each of the two walks ends.
        let large = Scene::filled(600)?;
        let _reads = large.range.space.open();
        ensure_eq!(large.reclaim_urgently(1), Some((2 * 512, 0)));
        Ok(())
    }

    /// What another thread does while reclaim takes page 0 of 2 out of the page table, or has done
    /// it: it waits for nothing.
    #[test]
    fn nobody_waits_for_a_page_that_leaves() -> Result<(), Failed> {
        for (event, act, freed, state) in [
            (PageEvent::UnmapStart, use_page as Act, 0, (2, 2, 2)),
            (PageEvent::UnmapEnd, use_page, 0, (2, 2, 2)),
            (PageEvent::UnmapStart, reclaim_beside, 1, (1, 1, 0)),
            (PageEvent::UnmapStart, close, 1, (0, 0, -1)),
        ] {
            let scene = Scene::filled(2)?;
            scene.books.lock().meanwhile = Some((event, scene.range.clone(), act));
            ensure_eq!(scene.reclaim(1), Some((1, freed)));
            ensure!(scene.books.lock().is_done);
            ensure_eq!(scene.state(), state);
            if freed == 0 {
                // The process gets the page back, which is at the end of the list.
                ensure_eq!(seen(scene.mapped.address), Ok(*b"used"));
                ensure_eq!(scene.reclaim(1), Some((1, 1)));
                ensure_eq!(scene.state(), (1, 1, 1));
                ensure_eq!(scene.reclaim(1), Some((1, 1)));
            }
            ensure_eq!(seen::<1>(scene.mapped.address), Err(EFAULT));
        }
        Ok(())
    }

    #[test]
    fn lesson_s21_who_cannot_wait_is_given_what_was_used_lately() -> Result<(), Failed> {
        let scene = Scene::filled(3)?;
        let fruitless = || scene.pool.fruitless.load(ordering::Relaxed);
        scene.books.lock().chances = 4;
        ensure_eq!((scene.reclaim(1), fruitless()), (Some((1, 0)), 1));
        // All of them are freed in the second round.
        ensure_eq!((scene.reclaim_urgently(1), fruitless()), (Some((6, 3)), 0));
        ensure_eq!(scene.reclaim_urgently(1), None);

        // If as many are freed as were asked for, pages that were used lately are kept.
        scene.fill(3)?;
        scene.books.lock().chances = 2;
        ensure_eq!(scene.reclaim_urgently(1), Some((3, 1)));
        ensure_eq!(scene.reclaim(2), Some((2, 2)));

        // Pages that are used between all calls stay, and reclaim does not walk them again and
        // again.
        scene.fill(3)?;
        scene.books.lock().chances = u32::MAX;
        ensure_eq!(scene.reclaim_urgently(1), Some((6, 0)));
        ensure_eq!(scene.reclaim_urgently(1), Some((1, 0)));
        scene.books.lock().chances = 0;
        ensure_eq!(scene.reclaim_urgently(1), Some((3, 3)));
        Ok(())
    }

    /// The mapping is checked again where a page is inserted, because it may have been removed
    /// since the last check.
    #[test]
    fn a_page_for_a_place_that_has_gone_is_refused() -> Result<(), Failed> {
        let scene = Scene::mapped(2)?;
        let range = &scene.range;
        let (mm, _) = range.missing(0, 1)?.ok_or(ENOENT)?;
        let page = place_unmapped(range, &mm, 0)?;
        let theirs = Mapped::map(1, READ | WRITE)?;
        // Nothing is mapped in the first page of an address space.
        for (address, result) in [
            (0, Err(ESRCH)),
            (theirs.address, Err(ESRCH)),
            (scene.mapped.address, Ok(())),
            (scene.mapped.address, Ok(())),
        ] {
            ensure_eq!(range.insert_page(&mm, address, &page), result);
        }
        Ok(())
    }

    /// Nothing can be made of a range that is closed, and its pages go with the last reader.
    #[test]
    fn lesson_s08_a_closed_range_has_nothing_left() -> Result<(), Failed> {
        // Secrets do not outlive it, whatever the process's page table has.
        for (begins, kept) in [(1, *b"se"), (2, [0; 2])] {
            let scene = Scene::filled(3)?;
            let range = &scene.range;
            for _ in 0..begins {
                range.begin_secret();
            }
            range.write(PAGE_SIZE - 1, b"se")?;
            range.end_secret();
            let reads = range.space.open();
            range.close();
            ensure_eq!(scene.state().1, 3);
            drop(reads);
            ensure_eq!(seen(scene.mapped.address + PAGE_SIZE - 1), Ok(kept));

            // Closing it again has no effect.
            range.close();
            ensure_eq!((range.size(), scene.state()), (0, (0, 0, -1)));
            ensure_eq!(range.populate(0, 1), Err(ESRCH));
            for refused in [
                range.write(0, b"x"),
                range.zero(0, 1),
                range.copy_from_user(0, UserPtr::from_addr(PAGE_SIZE), 1),
            ] {
                ensure_eq!(refused, Err(EFAULT));
            }
            ensure_eq!(scene.reclaim(3), None);
            ensure_eq!(Mapped::of_range(range, 3).err(), Some(EBUSY));
        }
        // Others of the pool keep their pages.
        let stays = Scene::filled(1)?;
        drop(stays.beside(2)?);
        ensure_eq!(stays.state(), (1, 1, 1));
        ensure_eq!(stays.reclaim(3), Some((1, 1)));
        Ok(())
    }
}
