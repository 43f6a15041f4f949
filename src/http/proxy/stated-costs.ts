/** The actual costs of a request's reservations, as its handler states them. */
export class StatedCosts {
  /** The policies whose costs are open. */
  readonly #open = new Set<string>();
  readonly #costs = new Map<string, number>();
  readonly #mayState: (policy: string) => boolean;
  #settle = async (): Promise<void> => undefined;

  /** @param mayState whether the handler may state the cost of a policy */
  constructor(mayState: (policy: string) => boolean) {
    this.#mayState = mayState;
  }

  /** @param settle called after each statement */
  open(policies: readonly string[], settle: () => Promise<void>): void {
    for (const policy of policies) if (this.#mayState(policy)) this.#open.add(policy);
    this.#settle = settle;
  }

  /** Costs that are stated later have no effect. */
  close(): void {
    this.#open.clear();
  }

  get hasOpen(): boolean {
    return this.#open.size > 0;
  }

  mayState(policy: string): boolean {
    return this.#mayState(policy);
  }

  /** Null as long as no cost is stated. */
  costOf(policy: string): number | null {
    return this.#costs.get(policy) ?? null;
  }

  /**
   * States the cost of a policy's reservation, once.
   * @returns whether the statement takes effect
   */
  async state(policy: string, cost: number): Promise<boolean> {
    if (!this.#open.delete(policy)) return false;
    this.#costs.set(policy, cost);
    await this.#settle();
    return true;
  }
}
