"""What a Flex Template of Dataflow needs: image definition, metadata, launcher."""
