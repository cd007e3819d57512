//! What is asked of a rank, and what comes back.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};

use super::driver::Command;
use crate::sched::{Output, RequestId, RequestSpec};

/// A request for a rank.
pub struct Submission {
    /// What to compute.
    pub spec: RequestSpec,
    /// Answers asked for in the whole request, for the metrics.
    pub n: u32,
    /// Told when the blocks for KV from another instance are reserved (requests with `load`).
    pub reserved: Option<oneshot::Sender<()>>,
}

/// A submitted request: its tokens, and its end when dropped early.
#[derive(Debug)]
pub struct Ticket {
    pub(super) id: RequestId,
    pub(super) outputs: mpsc::UnboundedReceiver<Output>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) done: bool,
}

/// The tokens, in order. Ends after the last one; earlier only when the rank is gone.
impl Stream for Ticket {
    type Item = Output;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Output>> {
        let polled = self.outputs.poll_recv(context);
        if let Poll::Ready(output) = &polled {
            self.done = output.as_ref().is_none_or(|output| output.finish.is_some());
        }
        polled
    }
}

impl Ticket {
    /// Name of the request within its rank.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Tells the rank that the KV of this request has arrived in its blocks.
    pub fn loaded(&self) {
        let _ = self.commands.send(Command::Loaded(self.id));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.done {
            // A rank that is gone has nothing left to free.
            let _ = self.commands.send(Command::Abort(self.id));
        }
    }
}
