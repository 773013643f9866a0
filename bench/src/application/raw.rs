//! Raw TCP: an echo, a source or a sink.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes that are read or written at once.
const LARGE: usize = 256 * 1024;

/// Serves a connection to its end.
pub(crate) async fn serve(mut stream: TcpStream) -> anyhow::Result<()> {
    let mut first = [0; 1];
    if stream.peek(&mut first).await? == 0 {
        return Ok(());
    }
    match first {
        [b'D'] => {
            let bytes = vec![b'D'; LARGE];
            loop {
                stream.write_all(&bytes).await?;
            }
        }
        [b'U'] => {
            let mut buffer = vec![0; LARGE];
            while stream.read(&mut buffer).await? > 0 {}
        }
        _ => {
            let mut buffer = vec![0; 4096];
            loop {
                let read = stream.read(&mut buffer).await?;
                let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                    break;
                };
                stream.write_all(bytes).await?;
            }
        }
    }
    Ok(())
}
