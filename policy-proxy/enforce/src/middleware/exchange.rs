//! How far an open request and its response are, and what is counted of them.

use crate::headers;
use crate::telemetry::{Elapsed, Outcome, Series, SeriesId};
use http::{HeaderMap, Response, StatusCode};
use std::time::{Duration, Instant};

/// A request that is open, as counters see it.
#[derive(Debug)]
pub struct Exchange {
    /// Where it is counted, in the counters of the policy that lets it be open.
    pub series: SeriesId,
    started: Instant,
    /// Whether the request said that it is gRPC.
    grpc: bool,
    upload: Upload,
    status: Option<StatusCode>,
    grpc_status: Option<u16>,
    /// Whether the first bytes of the response went.
    answered: bool,
    /// Whether the end was counted.
    ended: bool,
}

/// The request's body.
#[derive(Clone, Copy, Debug)]
enum Upload {
    None,
    Going,
    /// After this long.
    Ended(Duration),
}

impl Exchange {
    /// One that began at `started` and is counted in `series`.
    pub fn new(series: SeriesId, started: Instant, grpc: bool) -> Self {
        Self {
            series,
            started,
            grpc,
            upload: Upload::None,
            status: None,
            grpc_status: None,
            answered: false,
            ended: false,
        }
    }

    /// The request has a body, which is being sent.
    pub fn uploading(&mut self) {
        self.upload = Upload::Going;
    }

    /// Whether the request's body is being sent.
    pub fn is_uploading(&self) -> bool {
        matches!(self.upload, Upload::Going)
    }

    /// The request's body is sent, or will not be.
    pub fn uploaded(&mut self) {
        if matches!(self.upload, Upload::Going) {
            self.upload = Upload::Ended(self.started.elapsed());
        }
    }

    /// The response's head is there. A gRPC answer without a body has its status there.
    pub fn begun<B>(&mut self, response: &Response<B>) {
        self.status = Some(response.status());
        self.trailers(response.headers());
    }

    /// A gRPC answer has its status in its trailers.
    pub fn trailers(&mut self, fields: &HeaderMap) {
        if self.grpc {
            self.grpc_status = headers::grpc_status(fields).or(self.grpc_status);
        }
    }

    /// A piece of the response's body went; `last`: nothing follows.
    pub fn frame(&mut self, series: &Series, bytes: usize, last: bool) {
        series.response_frame(bytes);
        if !self.answered || last {
            let now = self.started.elapsed();
            self.first(series, now);
            if last {
                self.end(series, now, false);
            }
        }
    }

    /// The response ended; `broken`: before it was complete. Counted once.
    pub fn ended(&mut self, series: &Series, broken: bool) {
        if !self.ended {
            let now = self.started.elapsed();
            self.first(series, now);
            self.end(series, now, broken);
        }
    }

    fn first(&mut self, series: &Series, now: Duration) {
        if !std::mem::replace(&mut self.answered, true) {
            series.first_byte(now);
        }
    }

    fn end(&mut self, series: &Series, now: Duration, broken: bool) {
        let Some(status) = self.status else { return };
        self.ended = true;
        let outcome = Outcome { status: status.as_u16(), grpc: self.grpc_status, broken };
        let upload = match self.upload {
            Upload::None => Duration::ZERO,
            Upload::Going => now,
            Upload::Ended(after) => after,
        };
        series.ended(outcome, Elapsed { upload, total: now });
    }
}
