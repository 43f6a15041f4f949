/** Files that the playground accepts: plain and compressed logs. */
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { textOfFile } from "../../../src/console/playground/settings/log-file.ts";

const line = '203.0.113.7 - - [05/Jan/2026:12:00:00 +0000] "GET /ü HTTP/1.1" 200 512\n';
const file = (content: string | Buffer<ArrayBuffer>, name = "access.log"): File => new File([content], name);

it("a gzip file gives the same text as the plain file, whatever its name is", async () => {
  const text = line.repeat(20_000);
  expect(await textOfFile(file(text))).toBe(text);
  expect(await textOfFile(file(gzipSync(text)))).toBe(text);
});

it("a truncated gzip file is refused, and the error contains its name", async () => {
  const cut = gzipSync(line.repeat(1_000)).subarray(0, 60);
  await expect(textOfFile(file(Buffer.from(cut), "day.gz"))).rejects.toThrow(
    "The file day.gz could not be read. It is not valid gzip.",
  );
});

it("a small file is refused if its decompressed text is too long for the page", async () => {
  const compressed = gzipSync(Buffer.alloc(100_000_001));
  expect(compressed.length).toBeLessThan(1_000_000);
  await expect(textOfFile(file(compressed))).rejects.toThrow(
    /Expected a file of at most 100 MB of text, got 10[1-9] MB\./,
  );
});
