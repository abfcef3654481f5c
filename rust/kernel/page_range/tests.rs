// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of page ranges: with real pages, a real list and real mappings, in an address space
//! of the test's own, and with a shrinker whose count and scan the tests call themselves.

#[path = "tests/scene.rs"]
mod scene;
#[path = "tests/turns.rs"]
mod turns;

use scene::{put, seen, Mapped, Scene};

use super::{
    slots::{Found, HeldPage},
    PageRange,
};
use crate::kernel_ext::expect::{ensure, ensure_eq, Failed};
use kernel::{
    bindings, mm::MmWithUser, page::PAGE_SIZE, prelude::*, sync::atomic::ordering, uaccess::UserPtr,
};

/// Checks that nothing can be made of a range that has no mapping, or is closed.
fn all_is_refused(scene: &Scene) -> Result<(), Failed> {
    let range = &scene.range;
    ensure!(!range.is_mapped());
    ensure_eq!((range.size(), scene.present()), (0, 0));
    ensure_eq!(range.populate(0, 1), Err(ESRCH));
    ensure_eq!(range.write(0, b"x"), Err(EFAULT));
    ensure_eq!(range.read(0, &mut [0]), Err(EFAULT));
    ensure_eq!(range.zero(0, 1), Err(EFAULT));
    let from = UserPtr::from_addr(PAGE_SIZE);
    ensure_eq!(range.copy_from_user(0, from, 1), Err(EFAULT));
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

/// Checks that the records on the list leave it in the order in which they came.
fn take_in_order(scene: &Scene, wanted: &[u64]) -> Result<(), Failed> {
    for page in wanted {
        ensure_eq!(scene.reclaim(1), Some((1, 0)));
        ensure_eq!(scene.books.asked_for.load(ordering::Relaxed), *page);
    }
    Ok(())
}

#[kunit_tests(page_range)]
mod suite {
    use super::*;

    #[test]
    fn without_a_mapping_all_is_refused() -> Result<(), Failed> {
        let scene = Scene::new()?;
        ensure_eq!(scene.range.address(), None);
        all_is_refused(&scene)
    }

    #[test]
    fn fruitless_reclaim_is_counted_by_list() -> Result<(), Failed> {
        let scene = Scene::filled(1)?;
        let fruitless = |nid| {
            let control = bindings::shrink_control {
                nid,
                ..Scene::control(0)
            };
            scene.pool.fruitless(&control).load(ordering::Relaxed)
        };
        scene.books.chances.store(2, ordering::Relaxed);
        for (freed, counts) in [(0, [1, 0]), (0, [2, 0]), (1, [0, 0])] {
            ensure_eq!(scene.reclaim(1), Some((1, freed)));
            ensure_eq!([0, 1].map(fruitless), counts);
        }
        Ok(())
    }

    #[test]
    fn a_mapping_is_read_only_of_limited_size_and_made_once() -> Result<(), Failed> {
        let mut scene = Scene::new()?;
        let writable = Mapped::of_range(&scene.range, 4, usize::MAX, scene::READ | scene::WRITE);
        ensure_eq!(writable.err(), Some(EPERM));
        ensure!(!scene.range.is_mapped());

        let mapped = Mapped::of_range(&scene.range, 4, 3 * PAGE_SIZE, scene::READ)?;
        ensure!(scene.range.is_mapped());
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
        ensure_eq!(
            range.populate(3 * PAGE_SIZE + 10, 4 * PAGE_SIZE + 1),
            Ok(())
        );
        ensure_eq!((scene.present(), scene.listed()), (2, 0));
        ensure_eq!(seen::<2>(scene.address() + 4 * PAGE_SIZE - 1), Ok([0; 2]));
        ensure_eq!(seen::<1>(scene.address() + 5 * PAGE_SIZE), Err(EFAULT));
        ensure_eq!(range.write(0, b"x"), Err(EFAULT));

        // Pages that are present are not made again.
        ensure_eq!(range.populate(0, 4 * PAGE_SIZE), Ok(()));
        ensure_eq!(scene.present(), 5);
        ensure_eq!(scene.frontier(), 5);
        for (start, end) in [
            (0, 8 * PAGE_SIZE + 1),
            (7 * PAGE_SIZE, 6 * PAGE_SIZE),
            (0, usize::MAX),
        ] {
            ensure_eq!(range.populate(start, end), Err(EFAULT));
        }
        ensure_eq!(scene.present(), 5);
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
        ensure_eq!(range.write(2 * PAGE_SIZE - 2, b"end"), Err(EFAULT));
        ensure_eq!(range.write(usize::MAX, b"end"), Err(EFAULT));
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
        let from = |offset| UserPtr::from_addr(source.address + offset);
        ensure_eq!(
            range.copy_from_user(0, from(PAGE_SIZE - 4), PAGE_SIZE + 9),
            Ok(())
        );
        ensure_eq!(seen(scene.address()), Ok(*b"left\0\0\0\0"));
        ensure_eq!(seen(scene.address() + PAGE_SIZE + 4), Ok(*b"right"));

        source.unmap(PAGE_SIZE..2 * PAGE_SIZE)?;
        ensure_eq!(range.copy_from_user(0, from(PAGE_SIZE - 4), 5), Err(EFAULT));
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
        ensure_eq!((scene.present(), scene.listed()), (2, 0));
        ensure_eq!(scene.frontier(), 0);
        for page in [0, 2, 3, 5] {
            ensure_eq!(seen::<1>(scene.address() + page * PAGE_SIZE), Err(EFAULT));
            ensure_eq!(range.write(page * PAGE_SIZE, b"x"), Err(EFAULT));
        }
        ensure_eq!(seen(scene.address() + 4 * PAGE_SIZE), Ok(*b"in use"));
        // All of it can be populated again.
        ensure_eq!(range.populate(0, 6 * PAGE_SIZE), Ok(()));
        ensure_eq!((scene.present(), scene.listed()), (6, 0));
        Ok(())
    }

    #[test]
    fn a_page_in_use_is_asked_for_once() -> Result<(), Failed> {
        let scene = Scene::mapped(4)?;
        let range = &scene.range;
        // Pages whose first use has not ended are never asked for.
        range.populate(0, 4 * PAGE_SIZE)?;
        ensure!(range.has_unlisted());
        ensure_eq!((scene.listed(), scene.reclaim_urgently(4)), (0, None));
        range.release(0..4);
        ensure_eq!((scene.listed(), range.has_unlisted()), (4, false));
        // Released again, they are on the list once.
        range.release(0..4);
        ensure_eq!(scene.listed(), 4);
        // If they are used again, each is asked for once, and is listed when that use ends.
        scene.books.used.store(u64::MAX, ordering::Relaxed);
        ensure_eq!(scene.reclaim_urgently(1), Some((4, 0)));
        ensure_eq!((scene.listed(), range.has_unlisted()), (0, true));
        ensure_eq!(scene.reclaim_urgently(4), None);
        ensure_eq!(scene.books.asked.load(ordering::Relaxed), 4);
        ensure_eq!(range.write(0, b"x"), Ok(()));
        scene.books.used.store(0, ordering::Relaxed);
        range.release(1..3);
        ensure_eq!((scene.listed(), range.has_unlisted()), (2, true));
        ensure_eq!(scene.reclaim(4), Some((2, 2)));
        range.release(0..5);
        ensure_eq!(scene.listed(), 0);
        range.release(0..4);
        ensure_eq!((scene.listed(), range.has_unlisted()), (2, false));
        ensure_eq!(scene.reclaim(4), Some((2, 2)));
        Ok(())
    }

    #[test]
    fn pages_in_use_end_a_call_of_reclaim() -> Result<(), Failed> {
        let scene = Scene::filled(800)?;
        scene.books.used.store(u64::MAX, ordering::Relaxed);
        ensure_eq!(scene.reclaim_urgently(1), Some((512, 0)));
        ensure_eq!(scene.listed(), 288);
        // As many as are asked for are looked at in any case.
        scene.range.release(0..512);
        ensure_eq!(scene.reclaim_urgently(800), Some((800, 0)));
        ensure_eq!(scene.listed(), 0);
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
            ensure_eq!(
                (range.has_page(index), range.write(index * PAGE_SIZE, b"x")),
                (false, Err(EFAULT))
            );
            // Or when it has mapped the page.
            if index == 1 {
                range.insert_page(&mm, scene.address() + PAGE_SIZE, &page)?;
            }
            let start = index * PAGE_SIZE;
            ensure_eq!(range.populate(start, start + 1), Ok(()));
            range.write(start, b"seen")?;
            ensure_eq!(seen(scene.address() + start), Ok(*b"seen"));
            // What that thread does then has no effect.
            ensure_eq!(range.map(&mm, index, &page), Ok(()));
            let late = range.place(index, Some(range.allocate(&mm, index)?))?;
            ensure!(matches!(late, Found::Present));
            ensure_eq!(seen(scene.address() + start), Ok(*b"seen"));
        }
        ensure_eq!(scene.frontier(), 2);
        range.release(0..2);
        ensure_eq!((scene.listed(), scene.reclaim(2)), (2, Some((2, 2))));
        Ok(())
    }

    #[test]
    fn nobody_finds_what_was_in_a_page_before() -> Result<(), Failed> {
        let scene = Scene::mapped(16)?;
        let range = &scene.range;
        for _ in 0..4 {
            scene.fill(16)?;
            for page in 0..16 {
                let mut bytes = [0xee; 32];
                range.read((page + 1) * PAGE_SIZE - 32, &mut bytes)?;
                ensure_eq!(bytes, [0; 32]);
                let address = scene.address() + page * PAGE_SIZE;
                ensure_eq!(seen(address), Ok([0; 32]));
                range.write(page * PAGE_SIZE, &[0xaa; 32])?;
                range.write((page + 1) * PAGE_SIZE - 32, &[0xaa; 32])?;
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
        take_in_order(&scene, &[2])?;
        let first = round();
        take_in_order(&scene, &[0, 1])?;
        ensure_eq!(round(), first);
        take_in_order(&scene, &[2])?;
        ensure!(round() != first);
        let second = round();
        take_in_order(&scene, &[0, 1])?;
        ensure_eq!(round(), second);
        // Each is asked for once, however many are wanted.
        ensure_eq!(scene.reclaim(100), Some((3, 0)));
        ensure_eq!(scene.books.asked.load(ordering::Relaxed), 9);
        Ok(())
    }

    #[test]
    fn reclaim_waits_for_no_reader_and_the_frontier_comes_back() -> Result<(), Failed> {
        let scene = Scene::filled(2)?;
        {
            let _reads = scene.range.space.open();
            ensure_eq!(scene.reclaim(2), Some((2, 0)));
        }
        ensure_eq!(scene.books.asked.load(ordering::Relaxed), 2);
        ensure_eq!((scene.present(), scene.listed()), (2, 2));
        ensure_eq!(scene.frontier(), 0);
        scene.range.populate(0, 2 * PAGE_SIZE)?;
        ensure_eq!(scene.frontier(), 2);
        ensure_eq!(scene.reclaim(2), Some((2, 2)));
        ensure_eq!(scene.reclaim(2), None);
        Ok(())
    }

    #[test]
    fn lesson_s21_who_cannot_wait_is_given_what_was_used_lately() -> Result<(), Failed> {
        let scene = Scene::filled(3)?;
        scene.books.chances.store(4, ordering::Relaxed);
        ensure_eq!(scene.reclaim(1), Some((1, 0)));
        // All of them are freed in the second round.
        ensure_eq!(scene.reclaim_urgently(1), Some((6, 3)));
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
            // Its pages are freed nevertheless.
            ensure_eq!(scene.listed(), 3);
            ensure_eq!(scene.reclaim(2), Some((2, 2)));
            ensure_eq!((scene.present(), scene.listed()), (1, 1));
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
        // Nothing is mapped in the first page of an address space.
        ensure_eq!(range.insert_page(&mm, 0, &page), Err(ESRCH));
        let theirs = Mapped::anonymous(None, 1)?;
        ensure_eq!(range.insert_page(&mm, theirs.address, &page), Err(ESRCH));
        ensure_eq!(range.insert_page(&mm, scene.address(), &page), Ok(()));
        ensure_eq!(range.insert_page(&mm, scene.address(), &page), Ok(()));
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
        for begins in [1, 2] {
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
            let kept = if begins == 2 { [0; 2] } else { *b"se" };
            ensure_eq!(seen::<2>(scene.address() + PAGE_SIZE - 1), Ok(kept));
        }
        Ok(())
    }

    #[test]
    fn lesson_s08_a_closed_range_has_nothing_left() -> Result<(), Failed> {
        let scene = Scene::filled(3)?;
        let range = &scene.range;
        ensure_eq!(scene.listed(), 3);
        {
            let _reads = range.space.open();
            range.close();
            // The last reader drops the pages.
            ensure_eq!(scene.listed(), 3);
        }
        ensure_eq!(scene.listed(), 0);
        all_is_refused(&scene)?;
        // Closing it again has no effect.
        range.close();
        let again = Mapped::of_range(range, 3, usize::MAX, scene::READ);
        ensure_eq!(again.err(), Some(EBUSY));
        Ok(())
    }

    #[test]
    fn a_range_that_ends_takes_its_pages_along() -> Result<(), Failed> {
        let stays = Scene::mapped(2)?;
        stays.fill(1)?;
        let goes = stays.beside(2)?;
        ensure_eq!(stays.listed(), 3);
        drop(goes);
        ensure_eq!(stays.listed(), 1);
        ensure_eq!(stays.present(), 1);
        ensure_eq!(stays.reclaim(3), Some((1, 1)));
        Ok(())
    }
}
