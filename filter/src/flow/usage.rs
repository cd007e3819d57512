//! The engine's own count of cached prompt tokens, out of the last bytes of its response.
//!
//! A response is never held: of every piece that passes only the end is looked at, and of that only what the
//! report can be in is kept.

use crate::host::Host;

/// Bytes of the end of a response the report is looked for in.
const TAIL_BYTES: usize = 4096;

/// End of the response so far.
#[derive(Debug)]
pub(super) struct UsageTail {
    /// Events of a stream come in pieces of their own; reading more than the last one's end would only copy text.
    piece_bytes: usize,
    bytes: Vec<u8>,
}

impl UsageTail {
    pub(super) fn new(stream: bool) -> Self {
        Self { piece_bytes: if stream { TAIL_BYTES / 4 } else { TAIL_BYTES }, bytes: Vec::new() }
    }

    /// Looks at the end of a piece of `bytes` bytes.
    pub(super) fn take(&mut self, host: &impl Host, bytes: usize) {
        let wanted = bytes.min(self.piece_bytes);
        let end = host.response_body(bytes - wanted, wanted);
        if end.len() >= TAIL_BYTES {
            self.bytes = end;
            return;
        }
        let excess = (self.bytes.len() + end.len()).saturating_sub(TAIL_BYTES);
        self.bytes.drain(..excess.min(self.bytes.len()));
        self.bytes.extend_from_slice(&end);
    }

    /// The last count in the bytes kept.
    pub(super) fn cached_tokens(&self) -> Option<u32> {
        cached_tokens(&self.bytes)
    }
}

/// The number after the last `"cached_tokens"` key. Text the model wrote has its quotes escaped, so it cannot be mistaken for one.
fn cached_tokens(tail: &[u8]) -> Option<u32> {
    const KEY: &[u8] = b"\"cached_tokens\"";
    let at = tail.windows(KEY.len()).rposition(|window| window == KEY)?;
    let rest = tail.get(at + KEY.len()..)?.trim_ascii_start();
    let number = rest.strip_prefix(b":")?.trim_ascii_start();
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(number.get(..digits)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_report_counts_and_text_does_not() {
        let vllm = br#"{"choices":[],"usage":{"prompt_tokens":40,"prompt_tokens_details":{"cached_tokens":32}}}"#;
        assert_eq!(cached_tokens(vllm), Some(32));
        let spaced = br#""usage": {"prompt_tokens_details": {"cached_tokens" : 16}}"#;
        assert_eq!(cached_tokens(spaced), Some(16));
        let two = br#"data: {"cached_tokens":1}  data: {"cached_tokens":2}  data: [DONE]"#;
        assert_eq!(cached_tokens(two), Some(2));
        let text = br#"{"content":"{\"cached_tokens\":7}","usage":{"prompt_tokens_details":null}}"#;
        assert_eq!(cached_tokens(text), None);
        for nothing in
            [&b""[..], b"\"cached_tokens\"", b"\"cached_tokens\":", b"\"cached_tokens\":null", b"\"cached_tokens\":-1"]
        {
            assert_eq!(cached_tokens(nothing), None);
        }
        assert_eq!(cached_tokens(b"\"cached_tokens\":99999999999999999999"), None);
    }
}
