/** Reads the text of a chosen file, which may be compressed with gzip. */

const mostMegabytes = 100;

const mostBytes = mostMegabytes * 1e6;

/** @throws Error for a file that cannot be read, or has too many bytes */
export async function textOfFile(file: Blob & { readonly name: string }): Promise<string> {
  const isCompressed = await beginsAsGzip(file);
  if (file.size > mostBytes) throw tooLong(file.size);
  const bytes = file.stream();
  try {
    return await textOf(isCompressed ? bytes.pipeThrough(new DecompressionStream("gzip")) : bytes);
  } catch (error) {
    if (error instanceof RangeError) throw error;
    const reason = isCompressed ? "It is not valid gzip." : "";
    throw new Error(`The file ${file.name} could not be read. ${reason}`.trim(), { cause: error });
  }
}

/** Checks the content, because the file name does not always show the compression. */
async function beginsAsGzip(file: Blob): Promise<boolean> {
  const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return first === 0x1f && second === 0x8b;
}

/** Reads the text up to a bound: a small compressed file can contain more text than fits into memory. */
async function textOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let size = 0;
  for await (const chunk of chunksOf(stream)) {
    size += chunk.length;
    if (size > mostBytes) throw tooLong(size);
    parts.push(decoder.decode(chunk, { stream: true }));
  }
  parts.push(decoder.decode());
  return parts.join("");
}

/** Not every browser iterates over streams. */
async function* chunksOf<Chunk>(stream: ReadableStream<Chunk>): AsyncGenerator<Chunk> {
  const reader = stream.getReader();
  try {
    // oxlint-disable-next-line no-await-in-loop -- chunks come one after the other
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    await reader.cancel();
  }
}

const tooLong = (size: number): RangeError =>
  new RangeError(`Expected a file of at most ${mostMegabytes} MB of text, got ${Math.ceil(size / 1e6)} MB.`);
