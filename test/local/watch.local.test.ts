import { mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Watch, watchFiles } from "../../src/local/watch.ts";

let folder = "";
let watch: Watch | null = null;
const changed = vi.fn<() => void>();
const file = (name: string): string => join(folder, name);

beforeEach(() => {
  vi.useFakeTimers();
  changed.mockReset();
  folder = mkdtempSync(join(tmpdir(), "headgate-watch-"));
  writeFileSync(file("a"), "1");
  watch = watchFiles([file("a"), file("b")], changed);
});

afterEach(() => {
  watch?.close();
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

/** Enough for a change to be seen and to be quiet for a second. */
const settle = (): unknown => vi.advanceTimersByTime(1_400);

describe("a watched file", () => {
  it("is reported once after its contents have changed", () => {
    settle();
    expect(changed).toHaveBeenCalledTimes(0);
    writeFileSync(file("a"), "2");
    settle();
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("is reported when another file replaces it under its name", () => {
    writeFileSync(file("a.tmp"), "2");
    renameSync(file("a.tmp"), file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a.tmp"), "3");
    renameSync(file("a.tmp"), file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("is reported when it is deleted, and when it comes back", () => {
    rmSync(file("a"));
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("is reported when it comes into being, and when it is emptied", () => {
    writeFileSync(file("b"), "");
    settle();
    expect(changed).toHaveBeenCalledTimes(1);
    writeFileSync(file("a"), "");
    settle();
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("is not reported when only its times change, or when it is written as it was", () => {
    utimesSync(file("a"), 1, 1);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });

  it("is reported a second after the last of several quick changes", () => {
    for (let change = 0; change < 10; change++) {
      writeFileSync(file("a"), `change ${change}`);
      vi.advanceTimersByTime(900);
    }
    expect(changed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(500);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("is not reported earlier than a second after a change, in which counters are stored", () => {
    writeFileSync(file("a"), "2");
    vi.advanceTimersByTime(1_000);
    expect(changed).not.toHaveBeenCalled();
    vi.advanceTimersByTime(200);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("is not reported when it changes and changes back", () => {
    writeFileSync(file("a"), "2");
    vi.advanceTimersByTime(400);
    writeFileSync(file("a"), "1");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });

  it("is no longer reported after the watch is closed", () => {
    watch?.close();
    writeFileSync(file("a"), "2");
    settle();
    expect(changed).not.toHaveBeenCalled();
  });
});
