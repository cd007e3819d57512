//! One request and its response, with the rules of what may be touched when.

use std::collections::HashMap;

/// A request as Envoy has it.
#[derive(Debug, Default)]
pub struct FakeStream {
    /// Filter state set so far.
    pub filter_state: HashMap<String, String>,
    /// Envoy attributes, by dotted path.
    pub attributes: HashMap<String, Vec<u8>>,
    /// Answer given by the filter.
    pub reply: Option<(u32, Vec<u8>)>,
    /// Headers of that answer.
    pub reply_headers: Vec<(String, String)>,
    pub(super) request_headers: Vec<(String, Vec<u8>)>,
    pub(super) request_body: Vec<u8>,
    pub(super) response_headers: Option<Vec<(String, Vec<u8>)>>,
    pub(super) sent_response_headers: Vec<(String, Vec<u8>)>,
    pub(super) response_piece: Option<Vec<u8>>,
    pub(super) body_readable: bool,
    pub(super) released: bool,
    pub(super) responded: bool,
    pub(super) over: bool,
}

impl FakeStream {
    /// A request with these headers.
    pub fn with_headers(headers: &[(&str, &str)]) -> Self {
        let pairs = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        Self { request_headers: pairs.collect(), ..Self::default() }
    }

    /// Whether the request left the filter.
    pub fn is_released(&self) -> bool {
        self.released
    }

    /// The request body, as the next filter sees it.
    pub fn request_body(&self) -> &[u8] {
        &self.request_body
    }

    /// All values of a request header, as the next filter sees them.
    pub fn request_header(&self, name: &str) -> Vec<String> {
        let values = self.request_headers.iter().filter(|(known, _)| known == name);
        values.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// A response header as the client gets it.
    pub fn response_header(&self, name: &str) -> Option<String> {
        let found = self.sent_response_headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }

    pub(super) fn answered(&self) -> bool {
        self.reply.is_some() || self.over
    }

    pub(super) fn release(&mut self) {
        assert!(!self.released, "a request is released twice");
        self.released = true;
        self.body_readable = false;
    }

    pub(super) fn answer(&mut self, status: u32, headers: &[(&str, &str)], body: &[u8]) {
        assert!(!self.answered() && !self.responded, "a request is answered that is no longer ours");
        self.reply = Some((status, body.to_vec()));
        self.reply_headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    }

    pub(super) fn open_request_headers(&mut self) -> &mut Vec<(String, Vec<u8>)> {
        assert!(!self.released && !self.over, "request headers are touched after the request was released");
        &mut self.request_headers
    }

    pub(super) fn open_request_body(&mut self) -> &[u8] {
        assert!(self.body_readable, "the request body is read where there is none");
        &self.request_body
    }

    pub(super) fn open_response_headers(&mut self) -> &mut Vec<(String, Vec<u8>)> {
        self.response_headers.as_mut().unwrap_or_else(|| panic!("response headers are touched outside their callback"))
    }

    pub(super) fn open_response_piece(&self) -> &[u8] {
        self.response_piece.as_deref().unwrap_or_else(|| panic!("the response body is read outside its callback"))
    }
}
