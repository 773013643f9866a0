//! Raw TCP: an echo, a source or a sink.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes that are read or written at once.
const LARGE: usize = 256 * 1024;

/// Serves a connection to its end.
pub(crate) async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> anyhow::Result<()> {
    let mut small = [0; 4096];
    let mut read = stream.read(&mut small).await?;
    match small.first().filter(|_| read > 0) {
        None => {}
        Some(b'D') => {
            let bytes = vec![b'D'; LARGE];
            loop {
                stream.write_all(&bytes).await?;
            }
        }
        Some(b'U') => {
            let mut large = vec![0; LARGE];
            while stream.read(&mut large).await? > 0 {}
        }
        Some(_) => {
            while let Some(bytes) = small.get(..read).filter(|bytes| !bytes.is_empty()) {
                stream.write_all(bytes).await?;
                stream.flush().await?;
                read = stream.read(&mut small).await?;
            }
        }
    }
    Ok(())
}
