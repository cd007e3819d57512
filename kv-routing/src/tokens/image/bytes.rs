//! Little-endian getters that answer zero outside the slice.
//!
//! A zero is harmless everywhere it is used (an empty slot, class "other", token 0), and the checked form costs nothing
//! measurable, so the tables need neither validation in advance nor `unsafe`.

/// The `u16` at `offset`, or 0.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk::<2>()).map_or(0, |chunk| u16::from_le_bytes(*chunk))
}

/// The `u32` at `offset`, or 0.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// The `u64` at `offset`, or 0.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Appends a `u32`.
pub(crate) fn push_u32(bytes: &mut Vec<u8>, value: u32) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Appends a `u16`.
pub(crate) fn push_u16(bytes: &mut Vec<u8>, value: u16) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

/// Appends a `u64`.
pub(crate) fn push_u64(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}
