/** The accounts in memory, within a budget of bytes: those longest unused go out to storage first. */
import type { Account } from "./account.ts";

/**
 * For one object. The platform gives an isolate 128 MB and may put several objects of a class into one: 32 shards in one
 * isolate stay well below that. One account that is larger than all of it is held nevertheless, while it is used.
 */
export const mostHeldBytes = 2_000_000;

interface Entry {
  readonly account: Account;
  sizeBytes: number;
}

export class HeldAccounts {
  readonly #entries = new Map<string, Entry>();
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** The account of a key, which is now the one used last. */
  get(key: string): Account | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    // Put in again at the end: a Map lists its keys in the order of insertion.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.account;
  }

  /**
   * Holds an account, or measures again one that is held.
   * @returns those that had to go for it
   */
  keep(account: Account): Account[] {
    const known = this.#entries.get(account.key);
    const sizeBytes = account.sizeBytes();
    this.#sizeBytes += sizeBytes - (known?.sizeBytes ?? 0);
    if (known === undefined) this.#entries.set(account.key, { account, sizeBytes });
    else known.sizeBytes = sizeBytes;
    const gone: Account[] = [];
    for (const { account: oldest } of this.#entries.values()) {
      if (this.#sizeBytes <= mostHeldBytes || oldest === account) break;
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
