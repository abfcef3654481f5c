// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of page ranges: with real pages, a real list and real mappings, in an address space
//! of the test's own, and with a shrinker whose count and scan the tests call themselves.

#[path = "tests/scene.rs"]
mod scene;

use scene::{put, seen, Act, Mapped, Scene};

use super::{
    slots::{Found, HeldPage},
    PageEvent, PageRange,
};
use crate::kernel_ext::expect::{ensure, ensure_eq, Failed};
use kernel::{
    mm::MmWithUser, page::PAGE_SIZE, prelude::*, sync::atomic::ordering, uaccess::UserPtr,
};

/// Checks that nothing can be made of a range that has no mapping, or is closed.
fn all_is_refused(scene: &Scene) -> Result<(), Failed> {
    let range = &scene.range;
    ensure!(!range.is_mapped());
    ensure_eq!((range.size(), scene.state()), (0, (0, 0, -1)));
    ensure_eq!(range.populate(0, 1), Err(ESRCH));
    let from = UserPtr::from_addr(PAGE_SIZE);
    for refused in [
        range.write(0, b"x"),
        range.read(0, &mut [0]),
        range.zero(0, 1),
        range.copy_from_user(0, from, 1),
    ] {
        ensure_eq!(refused, Err(EFAULT));
    }
    ensure_eq!(scene.reclaim(3), None);
    Ok(())
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
    let mut control = Scene::control(1);
    range.pool.reclaim(&mut control, false) == Some(0) && range.has_page(1)
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
    fn without_a_mapping_all_is_refused() -> Result<(), Failed> {
        let scene = Scene::new()?;
        ensure_eq!(scene.range.address(), None);
        // There is no mapping that could be gone.
        scene
            .range
            .frontier
            .store(super::super::GONE, ordering::Relaxed);
        all_is_refused(&scene)
    }

    #[test]
    fn a_mapping_is_read_only_of_limited_size_and_made_once() -> Result<(), Failed> {
        let mut scene = Scene::new()?;
        let writable = Mapped::of_range(&scene.range, 4, usize::MAX, scene::READ | scene::WRITE);
        ensure_eq!(writable.err(), Some(EPERM));
        ensure!(!scene.range.is_mapped());

        let mapped = Mapped::of_range(&scene.range, 4, 3 * PAGE_SIZE, scene::READ)?;
        ensure_eq!(scene.range.size(), 3 * PAGE_SIZE);
        ensure_eq!(scene.range.address(), Some(mapped.address));
        let second = Mapped::of_range(&scene.range, 4, usize::MAX, scene::READ);
        ensure_eq!(second.err(), Some(EBUSY));
        ensure!(scene.range.is_mapped());
        scene.mapped = Some(mapped);
        Ok(())
    }

    #[test]
    fn pages_appear_where_they_are_asked_for() -> Result<(), Failed> {
        let scene = Scene::mapped(8)?;
        let range = &scene.range;
        ensure_eq!(seen::<1>(scene.address()), Err(EFAULT));
        let end = 4 * PAGE_SIZE + 1;
        ensure_eq!(range.populate(3 * PAGE_SIZE + 10, end), Ok(()));
        ensure_eq!(scene.state(), (2, 0, 0));
        ensure_eq!(seen::<2>(scene.address() + 4 * PAGE_SIZE - 1), Ok([0; 2]));
        ensure_eq!(seen::<1>(scene.address() + 5 * PAGE_SIZE), Err(EFAULT));
        ensure_eq!(range.write(0, b"x"), Err(EFAULT));

        // Pages that are present are not made again.
        ensure_eq!(range.populate(0, 4 * PAGE_SIZE), Ok(()));
        ensure_eq!(scene.state(), (5, 0, 5));
        for (start, end) in [
            (0, 8 * PAGE_SIZE + 1),
            (7 * PAGE_SIZE, 6 * PAGE_SIZE),
            (0, usize::MAX),
        ] {
            ensure_eq!(range.populate(start, end), Err(EFAULT));
        }
        ensure_eq!(scene.state(), (5, 0, 5));
        Ok(())
    }

    #[test]
    fn what_is_written_is_what_the_process_reads() -> Result<(), Failed> {
        let scene = Scene::mapped(2)?;
        let range = &scene.range;
        range.populate(0, 2 * PAGE_SIZE)?;
        let edge = PAGE_SIZE - 3;
        ensure_eq!(range.write(edge, b"border"), Ok(()));
        ensure_eq!(seen(scene.address() + edge), Ok(*b"border"));
        let mut bytes = [0; 6];
        ensure_eq!(range.read(edge, &mut bytes), Ok(()));
        ensure_eq!(bytes, *b"border");
        ensure_eq!(range.zero(edge + 1, 4), Ok(()));
        ensure_eq!(seen(scene.address() + edge), Ok(*b"b\0\0\0\0r"));
        // The process cannot write.
        ensure_eq!(put(scene.address(), b"x"), Err(EFAULT));
        // An access beyond the end is rejected.
        for beyond in [2 * PAGE_SIZE - 2, usize::MAX] {
            ensure_eq!(range.write(beyond, b"end"), Err(EFAULT));
        }
        Ok(())
    }

    #[test]
    fn data_is_copied_from_memory_that_is_there_and_that_is_not() -> Result<(), Failed> {
        let scene = Scene::mapped(3)?;
        let range = &scene.range;
        range.populate(0, 3 * PAGE_SIZE)?;
        range.write(0, b"old data")?;
        // Three pages, of which the second was never accessed.
        let source = Mapped::anonymous(None, 3)?;
        put(source.address + PAGE_SIZE - 4, b"left")?;
        put(source.address + 2 * PAGE_SIZE, b"right")?;
        let from = UserPtr::from_addr(source.address + PAGE_SIZE - 4);
        ensure_eq!(range.copy_from_user(0, from, PAGE_SIZE + 9), Ok(()));
        ensure_eq!(seen(scene.address()), Ok(*b"left\0\0\0\0"));
        ensure_eq!(seen(scene.address() + PAGE_SIZE + 4), Ok(*b"right"));

        source.unmap(PAGE_SIZE..2 * PAGE_SIZE)?;
        ensure_eq!(range.copy_from_user(0, from, 5), Err(EFAULT));
        let kernel = UserPtr::from_addr(usize::MAX - PAGE_SIZE);
        ensure_eq!(range.copy_from_user(0, kernel, 1), Err(EFAULT));
        Ok(())
    }

    #[test]
    fn idle_pages_go_and_those_in_use_stay() -> Result<(), Failed> {
        let scene = Scene::filled(6)?;
        let range = &scene.range;
        range.write(4 * PAGE_SIZE, b"in use")?;
        scene.books.used.store(1 << 1 | 1 << 4, ordering::Relaxed);
        ensure_eq!(scene.reclaim(usize::MAX), Some((6, 4)));
        ensure_eq!(scene.state(), (2, 0, 0));
        for page in [0, 2, 3, 5] {
            ensure_eq!(seen::<1>(scene.address() + page * PAGE_SIZE), Err(EFAULT));
            ensure_eq!(range.write(page * PAGE_SIZE, b"x"), Err(EFAULT));
        }
        ensure_eq!(seen(scene.address() + 4 * PAGE_SIZE), Ok(*b"in use"));
        // All of it can be populated again.
        ensure_eq!(range.populate(0, 6 * PAGE_SIZE), Ok(()));
        ensure_eq!(scene.state(), (6, 0, 6));
        Ok(())
    }

    #[test]
    fn a_page_in_use_is_asked_for_once() -> Result<(), Failed> {
        let scene = Scene::mapped(4)?;
        let range = &scene.range;
        // Pages whose first use has not ended are never asked for.
        range.populate(0, 4 * PAGE_SIZE)?;
        ensure!(range.has_unlisted());
        ensure_eq!((scene.state().1, scene.reclaim_urgently(4)), (0, None));
        // Released again, they are on the list once.
        for _ in 0..2 {
            range.release(0..4);
            ensure_eq!((scene.state().1, range.has_unlisted()), (4, false));
        }
        // If they are used again, each is asked for once, and is listed when that use ends.
        scene.books.used.store(u64::MAX, ordering::Relaxed);
        ensure_eq!(scene.reclaim_urgently(1), Some((4, 0)));
        ensure_eq!((scene.state().1, range.has_unlisted()), (0, true));
        ensure_eq!(scene.reclaim_urgently(4), None);
        ensure_eq!(scene.books.asked.load(ordering::Relaxed), 4);
        ensure_eq!(range.write(0, b"x"), Ok(()));
        scene.books.used.store(0, ordering::Relaxed);
        // What is beyond the end is not released.
        for (pages, listed, unlisted) in [(1..3, 2, true), (0..5, 0, true), (0..4, 2, false)] {
            range.release(pages);
            ensure_eq!((scene.state().1, range.has_unlisted()), (listed, unlisted));
            let freed = (listed > 0).then_some((listed, listed));
            ensure_eq!(scene.reclaim(4), freed);
        }
        Ok(())
    }

    #[test]
    fn pages_in_use_end_a_call_of_reclaim() -> Result<(), Failed> {
        let scene = Scene::filled(800)?;
        scene.books.used.store(u64::MAX, ordering::Relaxed);
        ensure_eq!(scene.reclaim_urgently(1), Some((512, 0)));
        ensure_eq!(scene.state().1, 288);
        // As many as are asked for are looked at in any case.
        scene.range.release(0..512);
        ensure_eq!(scene.reclaim_urgently(800), Some((800, 0)));
        ensure_eq!(scene.state().1, 0);
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
                range.insert_page(&mm, scene.address() + PAGE_SIZE, &page)?;
            }
            ensure_eq!(range.populate(start, start + 1), Ok(()));
            range.write(start, b"seen")?;
            ensure_eq!(seen(scene.address() + start), Ok(*b"seen"));
            // What that thread does then has no effect.
            ensure_eq!(range.map(&mm, index, &page), Ok(()));
            let late = range.place(index, Some(range.allocate(&mm, index)?))?;
            ensure!(matches!(late, Found::Present));
            ensure_eq!(seen(scene.address() + start), Ok(*b"seen"));
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
                ensure_eq!(seen(scene.address()), Ok(*b"used"));
            }
            ensure_eq!(scene.reclaim(1), Some((1, 1)));
        }
        Ok(())
    }

    #[test]
    fn nobody_finds_what_was_in_a_page_before() -> Result<(), Failed> {
        let scene = Scene::mapped(16)?;
        let range = &scene.range;
        for _ in 0..4 {
            scene.fill(16)?;
            for page in 0..16 {
                let (first, last) = (page * PAGE_SIZE, (page + 1) * PAGE_SIZE - 32);
                let mut bytes = [0xee; 32];
                range.read(last, &mut bytes)?;
                ensure_eq!(bytes, [0; 32]);
                ensure_eq!(seen(scene.address() + first), Ok([0; 32]));
                range.write(first, &[0xaa; 32])?;
                range.write(last, &[0xaa; 32])?;
            }
            // They are idle now, and the next to be freed.
            ensure_eq!(scene.reclaim(16), Some((16, 16)));
        }
        Ok(())
    }

    #[test]
    fn pages_are_asked_for_in_turn_and_rounds_are_told_apart() -> Result<(), Failed> {
        let scene = Scene::mapped(3)?;
        scene.books.chances.store(u32::MAX, ordering::Relaxed);
        for page in [2, 0, 1] {
            let start = page * PAGE_SIZE;
            scene.range.populate(start, start + 1)?;
            scene.range.release(page..page + 1);
        }
        let round = || scene.books.round.load(ordering::Relaxed);
        let mut last = super::super::FIRST_ROUND;
        for _ in 0..2 {
            for page in [2, 0, 1] {
                ensure_eq!(scene.reclaim(1), Some((1, 0)));
                ensure_eq!(scene.books.asked_for.load(ordering::Relaxed), page);
                ensure_eq!(round() == last, page != 2);
                last = round();
            }
        }
        // Each is asked for once, however many are wanted.
        ensure_eq!(scene.reclaim(100), Some((3, 0)));
        ensure_eq!(scene.books.asked.load(ordering::Relaxed), 9);
        Ok(())
    }

    #[test]
    fn reclaim_waits_for_no_reader_and_the_frontier_comes_back() -> Result<(), Failed> {
        let scene = Scene::filled(2)?;
        let other = scene.beside(3)?;
        {
            let _reads = scene.range.space.open();
            // Pages of other ranges go.
            ensure_eq!(scene.reclaim(5), Some((5, 3)));
            ensure_eq!(scene.books.asked.load(ordering::Relaxed), 2);
            ensure_eq!((scene.state(), other.state().0), ((2, 2, 0), 0));
            // Asking for them was not fruitless. If memory is needed, that is done in two rounds,
            // and again when others had the time to stop.
            ensure_eq!(scene.pool.fruitless.load(ordering::Relaxed), 0);
            ensure_eq!(scene.reclaim_urgently(1), Some((8, 0)));
        }
        scene.range.populate(0, 2 * PAGE_SIZE)?;
        ensure_eq!(scene.state(), (2, 2, 2));
        ensure_eq!(scene.reclaim(2), Some((2, 2)));
        ensure_eq!(scene.reclaim(2), None);
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
            *scene.books.meanwhile.lock() = Some((event, scene.range.clone(), act));
            ensure_eq!(scene.reclaim(1), Some((1, freed)));
            ensure!(scene.books.is_done.load(ordering::Relaxed));
            ensure_eq!(scene.state(), state);
            if freed == 0 {
                // The process gets the page back, which is at the end of the list.
                ensure_eq!(seen(scene.address()), Ok(*b"used"));
                ensure_eq!(scene.reclaim(1), Some((1, 1)));
                ensure_eq!(scene.state(), (1, 1, 1));
                ensure_eq!(scene.reclaim(1), Some((1, 1)));
            }
            ensure_eq!(seen::<1>(scene.address()), Err(EFAULT));
        }
        Ok(())
    }

    #[test]
    fn lesson_s21_who_cannot_wait_is_given_what_was_used_lately() -> Result<(), Failed> {
        let scene = Scene::filled(3)?;
        let fruitless = || scene.pool.fruitless.load(ordering::Relaxed);
        scene.books.chances.store(4, ordering::Relaxed);
        ensure_eq!((scene.reclaim(1), fruitless()), (Some((1, 0)), 1));
        // All of them are freed in the second round.
        ensure_eq!((scene.reclaim_urgently(1), fruitless()), (Some((6, 3)), 0));
        ensure_eq!(scene.reclaim_urgently(1), None);

        // If as many are freed as were asked for, pages that were used lately are kept.
        scene.fill(3)?;
        scene.books.chances.store(2, ordering::Relaxed);
        ensure_eq!(scene.reclaim_urgently(1), Some((3, 1)));
        ensure_eq!(scene.reclaim(2), Some((2, 2)));

        // Pages that are used between all calls stay, and reclaim does not walk them again and
        // again.
        scene.fill(3)?;
        scene.books.chances.store(u32::MAX, ordering::Relaxed);
        ensure_eq!(scene.reclaim_urgently(1), Some((6, 0)));
        ensure_eq!(scene.reclaim_urgently(1), Some((1, 0)));
        scene.books.chances.store(0, ordering::Relaxed);
        ensure_eq!(scene.reclaim_urgently(1), Some((3, 3)));
        Ok(())
    }

    #[test]
    fn a_mapping_that_went_or_lost_a_part_is_gone_for_good() -> Result<(), Failed> {
        for part in [0..4, 2..3] {
            let scene = Scene::mapped(4)?;
            scene.fill(3)?;
            let mapped = scene.mapped.as_ref().ok_or(ENOENT)?;
            mapped.unmap(part.start * PAGE_SIZE..part.end * PAGE_SIZE)?;
            ensure!(!scene.range.is_mapped());
            for start in [0, 3 * PAGE_SIZE] {
                ensure_eq!(scene.range.populate(start, start + 1), Err(ESRCH));
            }
            let again = Mapped::of_range(&scene.range, 4, usize::MAX, scene::READ);
            ensure_eq!(again.err(), Some(EBUSY));
            // Its pages are freed nevertheless, unless the space is open.
            let reads = scene.range.space.open();
            ensure_eq!(scene.reclaim(3), Some((3, 0)));
            drop(reads);
            ensure_eq!(scene.reclaim(2), Some((2, 2)));
            ensure_eq!(scene.state(), (1, 1, -1));
        }
        Ok(())
    }

    /// The mapping is checked again where a page is inserted, because it may have been removed
    /// meanwhile.
    #[test]
    fn a_page_for_a_place_that_has_gone_is_refused() -> Result<(), Failed> {
        let scene = Scene::mapped(2)?;
        let range = &scene.range;
        let (mm, _) = range.missing(0, 1)?.ok_or(ENOENT)?;
        let page = place_unmapped(range, &mm, 0)?;
        let theirs = Mapped::anonymous(None, 1)?;
        // Nothing is mapped in the first page of an address space.
        for (address, result) in [
            (0, Err(ESRCH)),
            (theirs.address, Err(ESRCH)),
            (scene.address(), Ok(())),
            (scene.address(), Ok(())),
        ] {
            ensure_eq!(range.insert_page(&mm, address, &page), result);
        }
        Ok(())
    }

    #[test]
    fn lesson_r03_what_is_mapped_instead_gets_no_pages() -> Result<(), Failed> {
        let scene = Scene::mapped(2)?;
        scene.fill(1)?;
        scene.range.write(0, b"secret")?;
        let mapped = Mapped::anonymous(Some(scene.address()), 2)?;
        ensure_eq!(mapped.address, scene.address());
        ensure_eq!(scene.range.populate(PAGE_SIZE, PAGE_SIZE + 1), Err(ESRCH));
        put(mapped.address, b"theirs")?;
        ensure_eq!(put(mapped.address + PAGE_SIZE, b"too"), Ok(()));
        // Reclaim takes none of it away either.
        ensure_eq!(scene.reclaim(2), Some((1, 1)));
        ensure_eq!(seen(mapped.address), Ok(*b"theirs"));
        ensure_eq!(seen(mapped.address + PAGE_SIZE), Ok(*b"too"));
        Ok(())
    }

    #[test]
    fn secrets_do_not_outlive_a_closed_range() -> Result<(), Failed> {
        for (begins, kept) in [(1, *b"se"), (2, [0; 2])] {
            let scene = Scene::mapped(2)?;
            let range = &scene.range;
            range.populate(0, 2 * PAGE_SIZE)?;
            for _ in 0..begins {
                range.begin_secret();
            }
            range.write(PAGE_SIZE - 1, b"se")?;
            range.end_secret();
            range.close();
            // The process's page table still has the pages.
            ensure_eq!(seen::<2>(scene.address() + PAGE_SIZE - 1), Ok(kept));
        }
        Ok(())
    }

    #[test]
    fn lesson_s08_a_closed_range_has_nothing_left() -> Result<(), Failed> {
        let scene = Scene::filled(3)?;
        let range = &scene.range;
        {
            let _reads = range.space.open();
            range.close();
            // The last reader drops the pages.
            ensure_eq!(scene.state().1, 3);
        }
        all_is_refused(&scene)?;
        // Closing it again has no effect.
        range.close();
        let again = Mapped::of_range(range, 3, usize::MAX, scene::READ);
        ensure_eq!(again.err(), Some(EBUSY));
        // Nor has one that was dropped. Others of the pool keep their pages.
        let stays = Scene::filled(1)?;
        drop(stays.beside(2)?);
        ensure_eq!(stays.state(), (1, 1, 1));
        ensure_eq!(stays.reclaim(3), Some((1, 1)));
        Ok(())
    }
}
