/** Records the requests that a file's tests send, for the differential test that follows them. */
import type { RecordedRequest } from "./replay.ts";

const recorded: RecordedRequest[] = [];
let skipped = 0;

/** Returns the requests since the last call, and the number of requests that could not be recorded. */
export function takeRecorded(): { requests: RecordedRequest[]; skipped: number } {
  const taken = { requests: recorded.splice(0), skipped };
  skipped = 0;
  return taken;
}

/**
 * Records a request, unless its body is a stream, which can be read only once.
 * @returns a function that records the response
 */
export function record(request: Omit<RecordedRequest, "atMs">): (response: Response) => Promise<void> {
  const isStream = request.init.body instanceof ReadableStream;
  if (isStream) {
    skipped++;
    return async () => undefined;
  }
  const entry: RecordedRequest = { ...request, atMs: Date.now() };
  recorded.push(entry);
  return async (response) => {
    const etag = response.headers.get("ETag");
    const isJson = response.headers.get("Content-Type") === "application/json";
    if (etag === null && !isJson) return;
    entry.response = { body: isJson ? await response.clone().text() : "", etag };
  };
}
