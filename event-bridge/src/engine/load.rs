//! SGLang's load socket: `["load", sequence, ["LoadStat", ...]]`.

use super::fields::wrong;
use super::msgpack::{Fault, MsgpackError, Reader, Token};

/// Number of elements the first release that has the socket sends, its tag included.
const ELEMENTS: u32 = 11;

/// Load of one SGLang scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadStat {
    /// Requests running.
    pub running: u64,
    /// Requests waiting.
    pub waiting: u64,
    /// Tokens in the cache pool in use.
    pub used_tokens: u64,
    /// Tokens the cache pool can hold.
    pub capacity_tokens: u64,
    /// Attention data-parallel rank.
    pub rank: u64,
    /// Tokens of waiting requests that are not cached.
    pub waiting_uncached_tokens: u64,
    /// Tokens of all requests.
    pub total_tokens: u64,
    /// Most requests it runs at once.
    pub max_running: u64,
    /// Uncached tokens prefilled since it started.
    pub prefilled_tokens: u64,
    /// Microseconds spent on them.
    pub prefill_busy_us: u64,
}

/// Decodes the third frame. Elements beyond the known ones are ignored.
///
/// # Errors
/// It is not an array that begins with the tag and ten non-negative integers.
pub fn decode_load(payload: &[u8]) -> Result<LoadStat, MsgpackError> {
    let mut reader = Reader::new(payload);
    let start = reader;
    match reader.token()? {
        Token::Array(length) if length >= ELEMENTS => {}
        Token::Array(length) => {
            let (length, least) = (u64::from(length), u64::from(ELEMENTS));
            return Err(start.error(Fault::TooFew { field: "LoadStat", length, least }));
        }
        other => return Err(wrong(&start, "LoadStat", "array", other)),
    }
    let before = reader;
    if reader.token()? != Token::Text(b"LoadStat") {
        return Err(before.error(Fault::Nonsense { field: "tag", what: "not LoadStat" }));
    }
    let mut stat = LoadStat::default();
    for field in [
        &mut stat.running,
        &mut stat.waiting,
        &mut stat.used_tokens,
        &mut stat.capacity_tokens,
        &mut stat.rank,
        &mut stat.waiting_uncached_tokens,
        &mut stat.total_tokens,
        &mut stat.max_running,
        &mut stat.prefilled_tokens,
        &mut stat.prefill_busy_us,
    ] {
        let before = reader;
        match reader.token()? {
            Token::Unsigned(number) => *field = number,
            other => return Err(wrong(&before, "LoadStat", "non-negative integer", other)),
        }
    }
    Ok(stat)
}
