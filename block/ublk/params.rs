// SPDX-License-Identifier: GPL-2.0

//! Parameters of a disk, as a server sets them: what is allowed, and what the block layer gets.

use crate::edge::{
    abi::{attribute, part, Parameters, SECTOR_SHIFT},
    Shape,
};
use kernel::{bindings, page::PAGE_SIZE, prelude::*};

/// 256 MiB, for the best accesses of a disk.
const MOST_SHIFT: u8 = 28;
/// The least limit of a segment, in bytes.
const LEAST_SEGMENT: u64 = 4096;
/// Memory of requests may begin at addresses that are divisible by four.
const USUAL_ALIGNMENT: u32 = 3;

/// Returns the parameters if a device can have them, with requests of so many bytes. `EINVAL`.
pub(crate) fn checked(mut parameters: Parameters, most_bytes: u32) -> Result<Parameters> {
    parameters.parts &= part::ALL;
    let has = |part| parameters.parts & part != 0;
    let are_allowed = has(part::BASIC)
        && is_basic_allowed(&parameters, most_bytes)
        && (!has(part::DISCARD) || is_discard_allowed(&parameters))
        && !has(part::NUMBERS)
        && (!has(part::DMA) || is_dma_allowed(&parameters))
        && (!has(part::SEGMENTS) || are_segments_allowed(&parameters))
        && !has(part::ZONED)
        && !has(part::INTEGRITY);
    are_allowed.then_some(parameters).ok_or(EINVAL)
}

fn is_basic_allowed(parameters: &Parameters, most_bytes: u32) -> bool {
    let basic = &parameters.basic;
    (SECTOR_SHIFT as u8..=PAGE_SIZE.ilog2() as u8).contains(&basic.logical_block)
        && (basic.logical_block..=MOST_SHIFT).contains(&basic.physical_block)
        && basic.least_io <= MOST_SHIFT
        && basic.best_io <= MOST_SHIFT
        && (PAGE_SIZE as u32 >> SECTOR_SHIFT..=most_bytes >> SECTOR_SHIFT)
            .contains(&basic.most_sectors)
}

fn is_discard_allowed(parameters: &Parameters) -> bool {
    let discard = &parameters.discard;
    discard.granularity != 0 && (discard.most_sectors == 0 || discard.most_segments == 1)
}

fn is_dma_allowed(parameters: &Parameters) -> bool {
    let mask = parameters.dma.mask;
    (mask as usize) < PAGE_SIZE && (mask + 1).is_power_of_two()
}

fn are_segments_allowed(parameters: &Parameters) -> bool {
    let segments = &parameters.segments;
    // A mask of all bits is that of 2^64 bytes, which C takes for none.
    let boundary = segments.boundary_mask.wrapping_add(1);
    boundary.is_power_of_two()
        && boundary >= LEAST_SEGMENT
        && u64::from(segments.most_bytes) >= LEAST_SEGMENT
}

/// Returns the disk that checked parameters describe.
pub(crate) fn shape(parameters: &Parameters) -> Shape {
    let (basic, discard) = (&parameters.basic, &parameters.discard);
    let mut limits = bindings::queue_limits {
        logical_block_size: 1 << basic.logical_block,
        physical_block_size: 1 << basic.physical_block,
        io_min: 1 << basic.least_io,
        io_opt: 1 << basic.best_io,
        max_hw_sectors: basic.most_sectors,
        chunk_sectors: basic.chunk_sectors,
        virt_boundary_mask: basic.virtual_boundary as usize,
        max_segments: u16::MAX,
        max_segment_size: u32::MAX,
        dma_alignment: USUAL_ALIGNMENT,
        ..pin_init::zeroed()
    };
    if parameters.parts & part::DISCARD != 0 {
        limits.discard_alignment = discard.alignment;
        limits.discard_granularity = discard.granularity;
        limits.max_hw_discard_sectors = discard.most_sectors;
        limits.max_write_zeroes_sectors = discard.most_zeroes_sectors;
        limits.max_discard_segments = discard.most_segments;
    }
    if parameters.parts & part::DMA != 0 {
        limits.dma_alignment = parameters.dma.mask;
    }
    if parameters.parts & part::SEGMENTS != 0 {
        limits.seg_boundary_mask = parameters.segments.boundary_mask as usize;
        limits.max_segment_size = parameters.segments.most_bytes;
        limits.max_segments = parameters.segments.most_segments;
    }
    let is = |attribute| basic.attributes & attribute != 0;
    Shape {
        sectors: basic.sectors,
        is_read_only: is(attribute::READ_ONLY),
        is_rotational: is(attribute::ROTATIONAL),
        has_cache: is(attribute::VOLATILE_CACHE),
        has_fua: is(attribute::FUA),
        limits,
    }
}
