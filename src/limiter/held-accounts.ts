/** The accounts in memory, within a budget of bytes: those longest unused go out to storage first. */
import type { Account } from "./account.ts";

/**
 * For one object. The platform gives an isolate 128 MB and may put several objects of a class into one: 32 shards in one
 * isolate stay well below that.
 */
export const wantedHeldBytes = 2_000_000;
/**
 * What is in use goes out only beyond this: to write and read a few long logs in turn would cost more than to hold them.
 * One account that is larger than all of it is held nevertheless, while it is used.
 */
export const mostHeldBytes = 8_000_000;
const inUseMs = 1_000;

interface Entry {
  readonly account: Account;
  readonly sizeBytes: number;
  readonly usedAtMs: number;
}

export class HeldAccounts {
  readonly #entries = new Map<string, Entry>();
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get(key: string): Account | undefined {
    return this.#entries.get(key)?.account;
  }

  /**
   * Holds an account as the one used last, and measures it anew.
   * @returns those that had to go for it
   */
  keep(account: Account, nowMs: number): Account[] {
    const known = this.#entries.get(account.key);
    const sizeBytes = account.sizeBytes();
    this.#sizeBytes += sizeBytes - (known?.sizeBytes ?? 0);
    this.#entries.delete(account.key);
    // At the end: a Map lists its keys in the order of insertion.
    this.#entries.set(account.key, { account, sizeBytes, usedAtMs: nowMs });
    const gone: Account[] = [];
    for (const { account: oldest, usedAtMs } of this.#entries.values()) {
      const isInUse = nowMs - usedAtMs < inUseMs;
      const budgetBytes = isInUse ? mostHeldBytes : wantedHeldBytes;
      if (this.#sizeBytes <= budgetBytes || oldest === account) break;
      this.drop(oldest.key);
      gone.push(oldest);
    }
    return gone;
  }

  drop(key: string): void {
    this.#sizeBytes -= this.#entries.get(key)?.sizeBytes ?? 0;
    this.#entries.delete(key);
  }

  accounts(): Account[] {
    return [...this.#entries.values()].map(({ account }) => account);
  }
}
