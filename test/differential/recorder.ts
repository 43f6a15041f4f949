/** The requests that the tests of this file have sent, for the differential test after them. */
import type { RecordedRequest } from "./replay.ts";

const recorded: RecordedRequest[] = [];
let skipped = 0;

/** Returns the requests since the last call, and how many others were not recorded. */
export function takeRecorded(): { requests: RecordedRequest[]; skipped: number } {
  const taken = { requests: recorded.splice(0), skipped };
  skipped = 0;
  return taken;
}

/**
 * Records a request, unless its body is a stream, which can be read once.
 * @returns a function that notes the response
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
