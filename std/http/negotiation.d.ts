export declare function accepts<T extends string>(request: Pick<Request, "headers">, ...types: T[]): T | undefined;
