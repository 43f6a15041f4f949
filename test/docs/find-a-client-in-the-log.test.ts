/**
 * The command and texts with which docs/operate/find-a-client-in-the-log.md computes the pseudonyms of keys give the
 * pseudonyms in events.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { keyPseudonym } from "../../src/observability/events.ts";
import { hmacWith, PartitionKeys } from "../../src/policy/partition-key.ts";
import { partsOf } from "../policy/harness.ts";
import { pageBlock } from "./page-block.ts";
import { codesIn, readPage, rowsOf } from "./pages.ts";

const secret = "a secret of thirty-two characters or more";
const partitions = new PartitionKeys(hmacWith(secret));
const folder = mkdtempSync(join(tmpdir(), "headgate-pseudonym-"));
writeFileSync(join(folder, ".dev.vars"), `KEY_SECRET="${secret}"\n`);
afterAll(() => rmSync(folder, { recursive: true }));

/** The text in the page's command that the reader replaces. */
const shownText = '[["ip", "203.0.113.7"]]';

/** The output of the page's command for a text. */
function computed(text: string): string {
  const command = pageBlock("operate/find-a-client-in-the-log", "bash", "createHmac").replace(shownText, text);
  // Removes the tests' own secret, which would take precedence over the secret in the file.
  const env = { PATH: process.env["PATH"] } as object as NodeJS.ProcessEnv;
  return execFileSync("bash", ["-c", command], { cwd: folder, env, encoding: "utf8" }).trim();
}

const partitionKeys = new Map([
  ["`ip`", partitions.partitionKey(partsOf("ip"), ["203.0.113.7"])],
  ["`ip`, an IPv6 address", partitions.partitionKey(partsOf("ip"), ["2001:db8:0:1::/64"])],
  ["`header:X-Api-Key`", partitions.partitionKey(partsOf("header:X-Api-Key"), ["k-1"])],
  ["a missing part", partitions.partitionKey(partsOf("header:X-Api-Key"), [null])],
  ["a `/check` token with a tenant", partitions.partitionKey(partsOf("ip"), ["203.0.113.7"], "acme")],
  ["a check with ad hoc `limits`", partitions.adhocPartitionKey(["203.0.113.7"])],
]);

const rows = rowsOf(readPage("docs/operate/find-a-client-in-the-log.md"), "key of the policy", "string");

it("the page about pseudonyms has a text for each kind of key", () => {
  expect(rows.map(([name]) => name)).toEqual([...partitionKeys.keys()]);
  expect(codesIn(rows[0]?.[1])).toEqual([JSON.stringify(JSON.parse(shownText))]);
});

it.each(rows)("the page's command with the text of %s prints the pseudonym in events", async (name, text) => {
  const partitionKey = (await partitionKeys.get(name ?? "")) ?? "";
  expect(computed(codesIn(text)[0] ?? "")).toBe(keyPseudonym(partitionKey));
});
